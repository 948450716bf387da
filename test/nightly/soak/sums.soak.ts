import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import root from 'tap'
import { addExact, type ExactInt } from '../../../src/formats/exact.ts'
import { windowKey } from '../../../src/ratelimit/redis/keys.ts'
import { windowAt } from '../../../src/ratelimit/rules/windows.ts'
import {
  createClusterWorld,
  createSentinelWorld,
  createServerWorld,
} from '../../ratelimit/sums/loss-worlds.ts'
import { loseUnderGateways } from '../../ratelimit/sums/lossy-gateways.ts'
import { createDice } from '../../ratelimit/sums/model.ts'
import { counters, kinds, runSchedule } from '../../ratelimit/sums/schedules.ts'
import { createRandom } from '../../support/random.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'
import '../../support/time-limit.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'

const modelled = Number(process.env.SCHEDULES ?? 1_000)
const real = Number(process.env.REAL_SCHEDULES ?? 100)
const lossy = Number(process.env.LOSS_SCHEDULES ?? 30)
const program = join(import.meta.dirname, 'sums-process.ts')
const mayLack: readonly string[] = ['pods', 'copies', 'clocks', 'deleted', 'checkpoint']

for (const kind of kinds) {
  root.test(`${modelled} schedules on models: ${kind}`, async (t) => {
    const { seed } = createRandom()
    t.comment(`SEED=${seed}`)
    const wrong: number[] = []
    let windows = 0
    for (let i = 0; i < modelled; i += 1) {
      const { high, above, low, disagree, compared } = await runSchedule(seed + i, kind)
      windows += compared
      const isWrong = high + above > 0 || (!mayLack.includes(kind) && low + disagree > 0)
      if (isWrong) wrong.push(seed + i)
    }
    t.comment(`${windows} windows`)
    t.strictSame(wrong, [])
  })
}

root.test(`${real} schedules with processes and a server`, { skip: skipValkey }, async (t) => {
  const { seed } = createRandom()
  t.comment(`SEED=${seed}`)
  const faults = new Map<string, number>()
  let lines = 0
  for (let i = 0; i < real; i += 1) {
    const result = await runReal(seed + i, (fault) => {
      faults.set(fault, (faults.get(fault) ?? 0) + 1)
    })
    lines += result.lines
    t.strictSame(result.wrong, [], `seed ${seed + i}`)
  }
  t.comment(`${lines} lines; ${[...faults].map((each) => each.join(' ')).join(', ')}`)
})

const worlds = [
  ['a server', createServerWorld],
  ['a Sentinel', createSentinelWorld],
  ['a Cluster', createClusterWorld],
] as const

for (const [name, createWorld] of worlds) {
  root.test(`${lossy} schedules of losses of ${name}`, { skip: skipValkey }, async (t) => {
    const { seed } = createRandom()
    t.comment(`SEED=${seed}`)
    const world = await createWorld(t, seed)
    let lines = 0
    for (let i = 0; i < lossy; i += 1) {
      const outcome = await loseUnderGateways(world, seed + i)
      lines += outcome.lines
      t.strictSame(outcome.wrong, [], `seed ${seed + i}: ${outcome.kinds.join(', ')}`)
    }
    t.comment(`${lines} lines`)
  })
}

interface Line {
  readonly t: number
  /** In digits: of money sums are large. */
  readonly n: string
  readonly c: readonly number[]
}

/** Two seconds of lines and faults; what the server has once they are over must be what the lines say. */
async function runReal(seed: number, note: (fault: string) => void) {
  const dice = createDice(seed)
  const { path, remove } = makeTemporaryFolder()
  const ends: (() => unknown)[] = []
  const valkey = await startValkey({ teardown: (end: () => unknown) => void ends.push(end) })
  const names = ['a', 'b', 'c'].slice(0, 1 + dice.below(3))
  for (const name of names) mkdirSync(join(path, name))
  const children = new Set<ChildProcess>()
  function start(name: string, role = 'writer'): ChildProcess {
    const args = ['--no-warnings', program, join(path, name), name, valkey.url, role]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
    children.add(child)
    return child
  }
  async function kill(child: ChildProcess | undefined): Promise<void> {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  const writers = names.map((name) => start(name))
  if (seed % 2 === 0) start(names[0] as string, 'reader')
  const lines: Line[] = []
  const large = dice.pick<ExactInt>([0, 2 ** 53 - 3_000, 2n ** 52n])
  function log(): void {
    const which = counters.map((_, i) => i).filter(() => dice.chance(0.5))
    const line = { t: Date.now(), n: String(addExact(large, 1 + dice.below(1_000))), c: which }
    lines.push(line)
    const text = JSON.stringify({ ...line, i: lines.length })
    appendFileSync(join(path, dice.pick(names), 'usage.jsonl'), `\n${text}\n`)
  }

  try {
    await delay(800)
    const until = Date.now() + 2_500
    for (let faultAt = Date.now() + 150; Date.now() < until; ) {
      for (let i = 1 + dice.below(4); i > 0; i -= 1) log()
      if (Date.now() >= faultAt) {
        await fault().catch(() => {})
        faultAt = Date.now() + dice.below(350)
      }
      await delay(dice.below(20))
    }
    for (let i = 0; i < 50; i += 1) log()
    let wrong: readonly string[] = ['unread']
    for (const giveUpAt = Date.now() + 20_000; wrong.length > 0 && Date.now() < giveUpAt; ) {
      await delay(150)
      wrong = await compare(valkey, lines)
    }
    return { wrong, lines: lines.length }
  } finally {
    for (const child of children) await kill(child)
    for (const end of ends) await end()
    remove()
  }

  async function fault(): Promise<void> {
    const kinds = ['kill', 'kill', 'kill', 'flush', 'restart empty', 'copy', 'older copy']
    const what = dice.pick([...kinds, 'older copy', 'stop', 'full', 'cut', 'two writers'])
    note(what)
    const i = dice.below(names.length)
    const [dump, copy] = [join(valkey.folder, 'dump.rdb'), join(path, 'copy.rdb')]
    if (what === 'kill') {
      await kill(writers[i])
      await delay(dice.below(200))
      writers[i] = start(names[i] as string)
    } else if (what === 'flush') await valkey.client.flushall()
    else if (what === 'copy') {
      await valkey.client.save()
      copyFileSync(dump, copy)
    } else if (what === 'older copy' || what === 'restart empty') {
      await valkey.kill()
      rmSync(dump, { force: true })
      if (what === 'older copy' && existsSync(copy)) copyFileSync(copy, dump)
      await delay(dice.below(150))
      await valkey.start()
    } else if (what === 'stop') {
      valkey.freeze()
      await delay(100 + dice.below(700))
      if (dice.chance(0.5)) void valkey.client.flushall().catch(() => {})
      valkey.thaw()
    } else if (what === 'full') {
      await valkey.client.config('SET', 'maxmemory', '100kb')
      await delay(dice.below(300))
      await valkey.client.config('SET', 'maxmemory', '0')
    } else if (what === 'cut') {
      await valkey.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    } else {
      const first = writers[i]
      writers[i] = start(names[i] as string)
      await delay(400)
      await kill(first)
    }
  }
}

/** Windows of which the server has something else than the lines say. */
async function compare(valkey: RunningValkey, lines: readonly Line[]): Promise<readonly string[]> {
  const now = Date.now()
  const wrong: string[] = []
  for (const [i, counter] of counters.entries()) {
    const window = windowAt(counter, now)
    if (window.end < now + 10_000) continue
    const isIn = ({ t, c }: Line): boolean => c.includes(i) && windowAt(counter, t).id === window.id
    const expected = lines.reduce((sum, line) => sum + (isIn(line) ? BigInt(line.n) : 0n), 0n)
    const hash = await valkey.client.hgetall(windowKey('all', window)).catch(() => ({}))
    const { '+': stored = '0', ...fields } = hash as Record<string, string>
    const sum = Object.values(fields).reduce((all, each) => all + BigInt(each), 0n)
    if (BigInt(stored) !== expected || sum !== expected) {
      wrong.push(`${counter.key} ${stored} of ${expected}`)
    }
  }
  return wrong
}
