import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import type { Counter } from '../../../src/core/counter.ts'
import { createCounterTable, createMemoryCounters } from '../../../src/store/counters/memory.ts'
import { createCounterOwner } from '../../../src/store/counters/owner.ts'
import {
  createRedisCounters,
  type RedisCounters,
} from '../../../src/store/counters/redis/counters.ts'
import type { CounterCommands } from '../../../src/store/counters/redis/scripts.ts'
import { poll } from '../../support/poll.ts'
import { testCountedOnce } from './counted-once.contract.ts'
import { type CounterWorld, testCounterStore } from './counter-store.contract.ts'

const minute = 60_000
const hour = 60 * minute

/** As over a channel between processes: arguments and answers are copies. */
function copying(owner: CounterCommands, flaws: { loseAnswers?: () => boolean } = {}) {
  const through =
    <Args extends readonly unknown[], Answer>(act: (...args: Args) => Promise<Answer>) =>
    async (...args: Args): Promise<Answer> => {
      const answer = await act(...(JSON.parse(JSON.stringify(args)) as Args))
      await delay(1)
      if (flaws.loseAnswers?.()) throw new Error('no answer')
      return JSON.parse(JSON.stringify(answer))
    }
  return {
    ...owner,
    add: through(owner.add),
    read: through(owner.read),
    restore: through(owner.restore),
  }
}

interface WorkerTraits {
  readonly loseAnswers?: () => boolean
  readonly farFlushMs?: number
  readonly onFlushed?: () => void
}

interface Machine {
  aheadMs: number
  wallAheadMs: number
  /** The process that owns the counters, and those of a worker. */
  readonly owner: ReturnType<typeof createMemoryCounters>
  worker(traits?: WorkerTraits): RedisCounters
  close(): Promise<void>
}

function createMachine(): Machine {
  const table = createCounterTable()
  const started: RedisCounters[] = []
  const machine: Machine = {
    aheadMs: 0,
    wallAheadMs: 0,
    owner: createMemoryCounters(table),
    worker({ loseAnswers, ...traits } = {}) {
      const counters = createRedisCounters({
        ...traits,
        commands: copying(commands, loseAnswers && { loseAnswers }),
        cluster: false,
        plainKeys: true,
        flushMs: 5,
        youngMs: 0,
        onLoss: 'allow',
        onUnavailable() {},
        monotonic: () => performance.now() + machine.aheadMs,
        wallClock: () => Date.now() + machine.wallAheadMs,
      })
      started.push(counters)
      return counters
    },
    async close() {
      for (const counters of started) await counters.stop(0)
    },
  }
  const commands = createCounterOwner({
    table,
    clock: () => Date.now() + machine.wallAheadMs,
    steady: () => performance.timeOrigin + performance.now() + machine.aheadMs,
  })
  return machine
}

async function createWorld(withOwner: boolean): Promise<CounterWorld> {
  const machine = createMachine()
  const counters = machine.worker()
  const other = withOwner ? machine.owner : machine.worker()
  const both = [counters, other]
  return {
    counters,
    other: { ...other, forgetReports: machine.owner.forgetReports },
    now: () => Date.now() + machine.wallAheadMs,
    async agree(asked) {
      await Promise.all(both.map((each) => each.kept()))
      for (const each of both) {
        await each.read(asked, Date.now() + machine.wallAheadMs)
        await delay(10)
        each.read(asked, Date.now() + machine.wallAheadMs)
        await each.kept()
      }
    },
    async advance(ms) {
      await Promise.all(both.map((each) => each.kept()))
      machine.aheadMs += ms
      machine.wallAheadMs += ms
    },
    setBack(ms) {
      machine.wallAheadMs -= ms
    },
    slackMs: 4_000,
    close: machine.close,
  }
}

testCounterStore('two workers', () => createWorld(false))
testCountedOnce('two workers', () => createWorld(false))
testCountedOnce('a worker and the owner', () => createWorld(true))

function machineFor(t: Test): Machine {
  const machine = createMachine()
  // A pending retry does not keep a process alive.
  const alive = setInterval(() => {}, 1_000)
  t.teardown(async () => {
    await machine.close()
    clearInterval(alive)
  })
  return machine
}

const counter: Counter = { key: `basic\nllm/small\n${hour}\nada\nlovelace`, windowMs: hour }

async function used(counters: RedisCounters | Machine['owner']): Promise<number> {
  const [state] = await counters.read([counter], Date.now())
  return state?.used ?? 0
}

test('concurrent additions by many workers are counted exactly, even if answers are lost', async (t) => {
  const machine = machineFor(t)
  let lost = 0
  const loseAnswers = (): boolean => Math.random() < 0.2 && ++lost > 0
  const workers = Array.from({ length: 4 }, () => machine.worker({ loseAnswers }))
  let told = 0
  for (let round = 0; round < 60; round += 1) {
    for (const worker of workers) {
      worker.add([counter], 3, Date.now())
      const report = { id: randomUUID(), endedAt: Date.now(), by: 'stream' } as const
      worker.add([counter], 4, Date.now(), { ...report, onCounted: () => (told += 1) })
      // The journal reports each of them too, before or after.
      machine.owner.add([counter], 4, Date.now(), {
        ...report,
        by: 'journal',
        onCounted: () => (told += 1),
      })
    }
    await delay(2)
  }
  await Promise.all(workers.map((worker) => worker.kept()))
  t.ok(lost > 0, 'some answers were lost')
  t.equal(await used(machine.owner), 60 * 4 * 7)
  t.equal(told, 60 * 4, 'exactly one report of each response counts')
  for (const worker of workers) {
    await poll(async () => (await used(worker)) === 60 * 4 * 7, 'each worker knows the sum')
  }
})

test('usage that a worker had not sent is counted from the journal', async (t) => {
  const machine = machineFor(t)
  const dying = machine.worker({ loseAnswers: () => true })
  const report = { id: randomUUID(), endedAt: Date.now() } as const
  dying.add([counter], 9, Date.now(), { ...report, by: 'stream' })
  await poll(() => dying.unavailable, 'the worker gets no answer')
  await dying.stop(0)
  machine.owner.add([counter], 9, Date.now(), { ...report, by: 'journal' })
  t.equal(await used(machine.owner), 9, 'once, whether the owner had received it or not')
})

test('a counter from the journal is known to a worker that has not used it', async (t) => {
  const machine = machineFor(t)
  const endedAt = Date.now() - 30 * minute
  machine.owner.add([counter], 70, Date.now(), { id: 'x', endedAt, by: 'journal' })
  const [state] = await machine.worker().read([counter], Date.now())
  t.equal(state?.used, 70)
  t.ok(Math.abs((state?.resetsAt ?? 0) - endedAt - hour) < 1_000, 'with the end of its window')
})

test('usage far from its limit is sent seldom', async (t) => {
  const machine = machineFor(t)
  let batches = 0
  const onFlushed = () => {
    batches += 1
  }
  const worker = machine.worker({ farFlushMs: 100, onFlushed })
  const far = { ...counter, limit: 1e6 }
  await worker.read([far], Date.now())
  const begin = performance.now()
  for (let i = 0; i < 200; i += 1) {
    worker.add([far], 1, Date.now())
    const report = { id: randomUUID(), endedAt: Date.now(), by: 'stream' } as const
    worker.add([far], 1, Date.now(), report)
    await delay(3)
  }
  const tookMs = performance.now() - begin
  t.ok(batches >= 2 && batches <= tookMs / 100 + 2, `${batches} batches in ${tookMs} ms`)
  await worker.kept()
  t.equal(await used(machine.owner), 400)
})

test('other workers learn at once of large additions near a limit', async (t) => {
  const machine = machineFor(t)
  const ever = 3_600_000
  const worker = machine.worker({ farFlushMs: ever })
  const small = { ...counter, limit: 640 }
  const add = (tokens: number): void => {
    const report = { id: randomUUID(), endedAt: Date.now(), by: 'stream' } as const
    worker.add([small], tokens, Date.now(), report)
  }
  const told = (tokens: number, what: string) =>
    poll(async () => (await used(machine.owner)) === tokens, what)
  await worker.read([small], Date.now())
  add(1)
  await told(1, 'the first after a pause')
  add(4)
  add(7)
  await told(12, 'a sixty-fourth of the limit is not sent yet')
  add(320)
  await told(332, 'half the limit is used')
  add(1)
  await told(333, 'with more than half used each response is sent')
  const other = machine.worker({ farFlushMs: ever })
  const unseen = { key: `${counter.key}2`, windowMs: hour, limit: 640 }
  other.add([unseen], 1, Date.now())
  other.add([unseen], 1, Date.now())
  await poll(
    async () => (await machine.owner.read([unseen], Date.now()))[0]?.used === 2,
    'both additions to a new counter are sent',
  )
})

test('a worker that stops sends all that it has', async (t) => {
  const machine = machineFor(t)
  const worker = machine.worker({ farFlushMs: 3_600_000 })
  const far = { ...counter, limit: 1e6 }
  await worker.read([far], Date.now())
  for (let i = 0; i < 50; i += 1) {
    worker.add([far], 2, Date.now())
    await delay(1)
  }
  t.equal(await worker.stop(10_000), 0)
  t.equal(await used(machine.owner), 100)
})
