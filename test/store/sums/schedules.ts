/**
 * Random schedules of faults. After the dust settles each open window's total in the store, and what each
 * process knows of it, must be the sum of the lines that the gateways' files have for it.
 */

import { setImmediate as turn } from 'node:timers/promises'
import {
  type CounterReset,
  type Resets,
  spanAt,
  type WindowedCounter,
  windowAt,
} from '../../../src/core/counting/windows.ts'
import { crc32 } from '../../../src/core/formats/base62.ts'
import { type GatewaySums, openGatewaySums } from '../../../src/store/sums/gateway-sums.ts'
import { keyOf, longMs } from '../../../src/store/sums/part.ts'
import type { LongSums } from '../../../src/store/sums/sum-store.ts'
import {
  createDice,
  Disk,
  folderOf,
  Killed,
  keptOf,
  type Life,
  LineWriter,
  Link,
  Server,
} from './model.ts'
import { textLines } from './plain-lines.ts'

export const counters: readonly WindowedCounter[] = [
  { key: 'sub\nllm/a\n1000\nann', owner: 'ann', window: { ms: 1_000 } },
  { key: 'sub\nllm/a\n60000\nann', owner: 'ann', window: { ms: 60_000 } },
  { key: 'sub\nllm/a\n3600000\nann', owner: 'ann', window: { ms: 3_600_000 } },
  { key: 'sub\nllm/b\n3600000\nbob', owner: 'bob', window: { ms: 3_600_000 } },
  { key: 'pool\nday', owner: 'org', window: { every: 'day', zone: 'Europe/Berlin' } },
  {
    key: 'pool\nmonth',
    owner: 'org',
    window: { every: 'month', zone: 'America/New_York', startsOn: 5 },
  },
  { key: 'sub\nllm/a\n604800000\ncy', owner: 'cy', window: { ms: 604_800_000 } },
]

/**
 * What happens besides what is in all of them: deaths of processes in each step, of Envoys, renamed files, copies of
 * files, two writers, outages, mishaps of calls, moved slots, and but for `ends`, `taken` and `checkpoint` losses of the store.
 * resets: of counters. evicted: single windows. ends: gateways end. taken: another goes on under its name. pods: they are lost with
 * their disks. durable: they end, and the store loses too. copies: of a disk, both alive. clocks: steps of an hour. deleted: files of lines.
 * checkpoint: it is deleted.
 */
export const kinds = [
  ...['exact', 'resets', 'evicted', 'ends', 'taken', 'durable'],
  ...['pods', 'copies', 'clocks', 'deleted', 'checkpoint'],
] as const
export type Kind =
  | 'exact'
  | 'resets'
  | 'evicted'
  | 'ends'
  | 'taken'
  | 'durable'
  | 'pods'
  | 'copies'
  | 'clocks'
  | 'deleted'
  | 'checkpoint'

export interface Outcome {
  readonly seed: number
  /** Windows that were compared. */
  compared: number
  /** Of them too high and too low, and by how many tokens. */
  high: number
  low: number
  highBy: number
  lowBy: number
  /** Totals that are not the sums of their fields, or not what a process knows. */
  disagree: number
  /** How often a process knew of more than was used, or of less than before. */
  above: number
  readonly faults: Map<string, number>
}

interface Response {
  readonly time: number
  readonly tokens: number
  readonly which: readonly number[]
}

interface Reset extends CounterReset {
  readonly counter: number
  readonly untold: Set<Place>
}

interface Running {
  readonly sums: GatewaySums
  readonly life: Life
  readonly link: Link
  readonly sending: Set<string>
  /** The resets that it was told of. */
  readonly known: Set<Reset>
}

interface Place {
  name: string
  disk: Disk
  script: LineWriter
  envoy: LineWriter
  offset: number
  processes: (Running | undefined)[]
  isGone: boolean
  /** Numbers of lines in Envoy's buffer. */
  buffered: number[]
  /** Until when each renamed file is written, if it is. */
  reopenBy: number
}

const [scriptFile, envoyFile] = ['usage.jsonl', 'usage.envoy.jsonl']
const start = 1_800_000_000_000

export async function runSchedule(seed: number, kind: Kind): Promise<Outcome> {
  const dice = createDice(seed * 16 + kind.length)
  let now = start + dice.below(40 * 86_400) * 1_000
  const tags = dice.chance(0.4) ? ['0', '1', '2', '3'] : ['all']
  const tagOf = (key: string): string => (tags.length === 1 ? 'all' : String(crc32(key) % 4))
  const faults = new Map<string, number>()
  const note = (fault: string): void => void faults.set(fault, (faults.get(fault) ?? 0) + 1)
  const background = new Set<Promise<unknown>>()

  // The servers: one for each half of the tags, each perhaps split in two.
  let redisAhead = 0
  const redisNow = (): number => now + redisAhead
  type Shard = readonly [server: Server, other: Server | undefined]
  const shards: Shard[] = tags.slice(0, tags.length === 1 ? 1 : 2).map(() => {
    return [new Server(redisNow), undefined]
  })
  const moved = new Map<string, number>()
  const copies: Server[][] = shards.map(() => [])
  const links: Link[] = []
  let troubles = 0

  function shardOf(key: string): number {
    const tag = /\{(\w+)\}/.exec(key)?.[1] ?? 'all'
    return tags.length === 1 ? 0 : (moved.get(tag) ?? Number(tag) % 2)
  }

  function connect(life: Life): Link {
    const side = dice.below(2)
    const link = new Link(
      (key) => {
        const [one, other] = shards[shardOf(key)] as Shard
        return side === 1 && other !== undefined ? other : one
      },
      dice,
      life,
    )
    links.push(link)
    return link
  }

  // What outlives all disks.
  const rows = new Map<string, Map<string, number>>()
  let isDatabaseDown = false
  const longSums: LongSums = {
    async load(ids) {
      if (isDatabaseDown) throw new Error('down')
      return ids.map((id) => rows.get(id) ?? new Map())
    },
    async save(gateway, sums) {
      if (isDatabaseDown) throw new Error('down')
      for (const { id, used } of sums) {
        const row = rows.get(id) ?? new Map<string, number>()
        rows.set(id, row.set(gateway, Math.max(row.get(gateway) ?? 0, used)))
      }
    },
  }

  const responses: Response[] = []
  const written = new Set<number>()
  /** Lines that may have been counted before it was known of a reset that they follow. */
  const forgiven = new Set<number>()
  const parsed = new Set<number>()
  const resets: Reset[] = []
  const places: Place[] = []
  const lastKnown = new WeakMap<GatewaySums, Map<string, number>>()
  let above = 0
  /** Chance of each step to be the last one of its process. */
  let danger = 0
  let isDiskSlow = false

  function beginLife(): Life {
    const life: Life = {
      isDead: false,
      strike() {
        if (life.isDead) throw new Killed()
        if (danger === 0 || !dice.chance(danger)) return
        note('killed in a step')
        life.isDead = true
        throw new Killed()
      },
    }
    return life
  }

  async function open(place: Place, slot: number): Promise<Running | undefined> {
    const life = beginLife()
    const link = connect(life)
    const known = new Set(resets)
    const opened = await openGatewaySums({
      ...{ gateway: place.name, files: [scriptFile, envoyFile], keptFiles: 1 + (seed % 3) },
      folder: folderOf(place.disk, life, () => now + place.offset),
      kept: keptOf(place.disk, life, () => isDiskSlow),
      ...{ store: link, tagOf, tags },
      longSums: kind === 'durable' ? longSums : undefined,
      now: () => now + place.offset,
      monotonic: () => now,
      ...textLines((text) => readLine(text, known)),
      resets: told(),
      onLoss: () => note('loss noticed'),
      onFault: () => {},
      onDouble() {
        note('double noticed')
        // A late call of one that has ended looks the same where its name was taken over.
        if (kind === 'copies') rename(place)
      },
    }).catch(unlessKilled)
    if (opened === undefined) return undefined
    const running: Running = { sums: opened, life, link, sending: new Set(), known }
    link.between = async () => {
      if (dice.chance(0.3)) opened.readEnds()
      if (dice.chance(0.2)) await turn()
    }
    place.processes[slot] = running
    for (const reset of resets) if (!reset.untold.has(place)) tellOf(reset, running)
    return running
  }

  function told(): Resets {
    const all = Map.groupBy(resets, ({ counter }) => (counters[counter] as WindowedCounter).key)
    return new Map([...all].map(([key, each]) => [key, each.map(({ at, used }) => ({ at, used }))]))
  }

  function readLine(text: string, known: ReadonlySet<Reset>) {
    const number = numberIn(text)
    const response = number === undefined ? undefined : responses[number]
    if (number === undefined || response === undefined) return undefined
    parsed.add(number)
    for (const reset of resets) {
      const isLater = response.which.includes(reset.counter) && response.time > reset.at
      if (isLater && !known.has(reset)) forgiven.add(number)
    }
    const { time, tokens, which } = response
    return [
      { at: time, amount: tokens, counters: which.map((i) => counters[i] as WindowedCounter) },
    ]
  }

  /** A copied volume: this gateway goes on under a new name, with nothing but what is new. */
  function rename(place: Place): void {
    end(place)
    const fresh = addPlace()
    fresh.offset = place.offset
  }

  function end(place: Place): void {
    place.isGone = true
    for (const running of place.processes) if (running !== undefined) running.life.isDead = true
    place.processes = []
  }

  function addPlace(): Place {
    const disk = new Disk()
    const place: Place = {
      ...{ name: `g${places.length}`, disk, offset: dice.below(5_000) - 2_500 },
      ...{ script: new LineWriter(disk, scriptFile), envoy: new LineWriter(disk, envoyFile) },
      ...{ processes: [], isGone: false, buffered: [], reopenBy: Number.POSITIVE_INFINITY },
    }
    places.push(place)
    for (const reset of resets) reset.untold.add(place)
    return place
  }

  const alive = (): Place[] => places.filter(({ isGone }) => !isGone)

  function processOf(place: Place, slot: number): Running | undefined {
    const running = place.processes[slot]
    return running === undefined || running.life.isDead ? undefined : running
  }

  /** Runs a step of a process, which it may not survive; sometimes others do not wait for it. */
  async function act(p: number, step: () => Promise<unknown>): Promise<void> {
    danger = dice.chance(p) ? 0.03 : 0
    const done = step().catch(unlessKilled)
    background.add(done)
    void done.finally(() => background.delete(done))
    if (dice.chance(0.7)) await done
    danger = 0
  }

  function send({ sums, sending }: Running, tag: string): Promise<void> {
    if (sending.has(tag)) return Promise.resolve()
    sending.add(tag)
    const part = sums.shared.parts.get(tag)
    return (part?.send() ?? Promise.resolve()).finally(() => sending.delete(tag))
  }

  function log(place: Place): void {
    const which = counters.map((_, n) => n).filter(() => dice.chance(0.4))
    const time = now + place.offset - dice.below(50)
    const number = responses.push({ time, tokens: 1 + dice.below(1_000), which }) - 1
    const line = JSON.stringify({ i: number, pad: 'x'.repeat(dice.below(40)) })
    if (dice.chance(0.6)) {
      place.script.log(line)
      if (!dice.chance(0.04)) {
        place.script.flush()
        written.add(number)
        return
      }
      // The disk was full: what is torn is told by Envoy.
      place.script.die(dice.below(line.length))
    }
    place.envoy.log(line)
    place.buffered.push(number)
  }

  function flushEnvoy(place: Place): void {
    if (now >= place.reopenBy) reopen(place)
    place.envoy.flush()
    for (const number of place.buffered) written.add(number)
    place.buffered = []
  }

  function reopen(place: Place): void {
    place.reopenBy = Number.POSITIVE_INFINITY
    place.envoy.reopen()
    place.script.reopen()
  }

  function tellOf(reset: Reset, { sums, known }: Running): void {
    known.add(reset)
    sums.reset((counters[reset.counter] as WindowedCounter).key, reset)
  }

  function tell(place: Place): void {
    if (place.processes.length === 0) return
    for (const reset of resets) {
      if (!reset.untold.delete(place)) continue
      for (const running of place.processes) if (running !== undefined) tellOf(reset, running)
    }
  }

  /** A process in this slot, which becomes the writer. */
  async function start_(place: Place, slot: number): Promise<void> {
    const running = processOf(place, slot) ?? (await open(place, slot))
    tell(place)
    await running?.sums.becomeWriter().catch(unlessKilled)
  }

  const gateways = 1 + dice.below(4)
  for (let i = 0; i < gateways; i += 1) await start_(addPlace(), 0)
  const mishaps = dice.pick([0, 0.1, 0.3])
  const steps = 60 + dice.below(100)
  for (let step = 0; step < steps; step += 1) {
    const place = dice.pick(alive())
    const slot = processOf(place, 1) !== undefined && dice.chance(0.4) ? 1 : 0
    now += dice.chance(0.02) ? dice.below(4_000_000) : dice.below(600)
    isDiskSlow = dice.chance(0.2)
    troubles = mishaps
    for (const link of links) link.trouble = troubles
    await takeStep(place, slot, dice.below(100))
    if (kind !== 'resets') check(place, slot)
  }

  async function takeStep(place: Place, slot: number, what: number): Promise<void> {
    const running = processOf(place, slot)
    if (what < 34) {
      for (let i = 1 + dice.below(5); i > 0; i -= 1) log(place)
      if (dice.chance(0.8)) flushEnvoy(place)
    } else if (running === undefined) {
      // Its place is taken by another one sooner or later.
      if (what < 70) await act(0.3, () => start_(place, slot))
    } else if (what < 40) {
      await act(0.1, () => running.sums.readAll())
    } else if (what < 46) {
      await act(0.1, async () => running.sums.readEnds())
    } else if (what < 66) {
      await act(0.2, () => send(running, dice.pick(tags)))
    } else if (what < 69) {
      await act(0.2, async () => running.sums.shared.parts.get(dice.pick(tags))?.mend())
    } else if (what < 71) {
      const asked = counters.filter(() => dice.chance(0.4))
      await act(0.2, () => running.sums.shared.fetch(asked, now + place.offset))
    } else if (what < 73) {
      note('killed')
      running.life.isDead = true
    } else if (what < 75) {
      await rotate(place, running)
    } else if (what < 77) {
      note('Envoy killed')
      killEnvoy(place)
    } else if (what < 79) {
      if (processOf(place, 1) !== undefined) return
      const second = await open(place, 1)
      // By mistake, both write.
      if (second === undefined || dice.chance(0.5)) return
      note('two writers')
      await act(0.3, () => second.sums.becomeWriter())
    } else if (what < 80) tell(place)
    else if (what < 81 && kind === 'resets') reset()
    else if (what < 82) stepClock(place)
    else if (what < 84) await special(place)
    else faultOfStore()
    if (kind === 'durable' && dice.chance(0.1)) {
      await act(0, async () => processOf(place, slot)?.sums.shared.saveLong())
    }
  }

  async function rotate(place: Place, running: Running): Promise<void> {
    note('renamed')
    if (now >= place.reopenBy) reopen(place)
    if (place.reopenBy !== Number.POSITIVE_INFINITY) return
    const name = dice.pick([scriptFile, envoyFile])
    const isReopened = dice.chance(0.7)
    // Some were renamed so long ago that they may be removed.
    const at = now + place.offset - (isReopened && dice.chance(0.7) ? 70_000 + dice.below(5) : 0)
    const bytes = place.disk.files.get(name)?.bytes
    place.disk.move(name, `${name}.${at}`)
    if (bytes !== undefined && dice.chance(0.1)) {
      place.disk.create(`${name}.${at + 1}`).bytes = bytes
    }
    if (isReopened) {
      flushEnvoy(place)
      reopen(place)
    } else place.reopenBy = now + 50_000
    await act(0.3, () => running.sums.save())
  }

  function killEnvoy(place: Place): void {
    const lines = place.envoy.die(dice.below(place.envoy.buffered + 1))
    for (const line of lines) {
      const number = numberIn(line)
      if (number !== undefined) written.add(number)
    }
    place.buffered = []
    place.script.die(0)
    place.reopenBy = Number.POSITIVE_INFINITY
  }

  function reset(): void {
    const counter = dice.below(counters.length)
    note('reset')
    const used = dice.chance(0.5) ? 0 : 1 + dice.below(1_000)
    resets.push({ counter, at: now, used, untold: new Set(alive()) })
    // By a gateway's clock that is ahead, they ended after it.
    for (const number of parsed) {
      if ((responses[number] as Response).time > now) forgiven.add(number)
    }
  }

  function stepClock(place: Place): void {
    if (kind === 'clocks' && dice.chance(0.5)) {
      note('clock steps')
      place.offset += dice.below(8_000_000) - 4_000_000
    } else {
      const offset = place.offset + dice.below(2_000) - 1_000
      place.offset = Math.max(-3_000, Math.min(3_000, offset))
    }
  }

  async function special(place: Place): Promise<void> {
    if (['pods', 'ends', 'taken', 'durable'].includes(kind)) await endPod(place)
    if (kind === 'copies' && !places.some(({ name }, i) => name !== `g${i}`)) copyVolume(place)
    if (kind === 'deleted') {
      note('file deleted')
      flushEnvoy(place)
      place.disk.files.delete(dice.pick([scriptFile, envoyFile]))
      reopen(place)
    }
    if (kind === 'checkpoint') {
      note('checkpoint deleted')
      for (const name of [...place.disk.files.keys()]) {
        if (name.startsWith('kept/')) place.disk.files.delete(name)
      }
      for (const running of place.processes) if (running !== undefined) running.life.isDead = true
    }
  }

  async function endPod(place: Place): Promise<void> {
    if (alive().length === 1 && dice.chance(0.5)) return
    const isClean = kind !== 'pods' || dice.chance(0.6)
    if (isClean && !(await endWell(place))) return
    note(isClean ? 'pod ended' : 'pod lost')
    for (const number of place.buffered) {
      if (!written.has(number))
        responses[number] = { ...(responses[number] as Response), which: [] }
    }
    end(place)
    const fresh = addPlace()
    if (kind !== 'taken') {
      await start_(fresh, 0)
      return
    }
    // It goes on under the name of the one that has ended, from what the store has of it.
    Object.assign(fresh, { name: place.name, offset: place.offset })
    isDiskSlow = false
    while (!processOf(fresh, 0)?.sums.isWriter) await start_(fresh, 0)
    for (const link of links) Object.assign(link, { isDown: false, trouble: 0 })
    for (const at of [now, now + 1_000]) {
      await processOf(fresh, 0)?.sums.shared.fetch(counters, at + fresh.offset)
    }
    await settleBackground()
  }

  function copyVolume(place: Place): void {
    note('volume copied')
    flushEnvoy(place)
    const copy = addPlace()
    const disk = place.disk.copy()
    const writers = {
      script: new LineWriter(disk, scriptFile),
      envoy: new LineWriter(disk, envoyFile),
    }
    Object.assign(copy, { name: place.name, disk, ...writers })
  }

  async function settleBackground(): Promise<void> {
    for (let turns = 0; turns < 8; turns += 1) {
      await Promise.all(background)
      await turn()
    }
  }

  /** What a process knows is never more than what was used, and never less than it was. */
  function check(place: Place, slot: number): void {
    const running = processOf(place, slot)
    if (running === undefined) return
    const at = now + place.offset
    const known = lastKnown.get(running.sums) ?? new Map<string, number>()
    lastKnown.set(running.sums, known)
    for (const [which, counter] of counters.entries()) {
      const { used } = running.sums.shared.read(counter, at)
      const { start: since, end: until } = spanAt(counter.window, counter.owner, at)
      const isIn = ({ time }: Response): boolean => time >= since && time < until
      const all = responses.filter((each) => each.which.includes(which) && isIn(each))
      const most = all.reduce((sum, { tokens }) => sum + tokens, 0)
      const name = `${which} ${since}`
      const least = kind === 'exact' ? (known.get(name) ?? 0) : 0
      if (used > most || used < least) above += 1
      known.set(name, used)
    }
  }

  /** Reads to the end and has it acknowledged; false if the store does not answer. */
  async function endWell(place: Place): Promise<boolean> {
    flushEnvoy(place)
    await settleBackground()
    const running = processOf(place, 0)
    running?.sums.beat()
    if (!running?.sums.isWriter) return false
    for (const link of links) link.trouble = 0
    await running.sums.readAll()
    const parts = [...running.sums.shared.parts.values()]
    for (const part of parts) {
      for (let i = 0; i < 5 && part.due + part.calm + part.lacking > 0; i += 1) {
        now += 60
        const isAnswered = await send(running, part.tag).then(
          () => true,
          () => false,
        )
        if (!isAnswered) return false
        await part.mend().catch(() => {})
      }
    }
    // Another process may have become the writer meanwhile.
    if (isDatabaseDown || !running.sums.isWriter || parts.some(({ due }) => due > 0)) return false
    await running.sums.shared.saveLong()
    return true
  }

  function faultOfStore(): void {
    const shard = dice.below(shards.length)
    const [server, other] = shards[shard] as Shard
    const kept = copies[shard] as Server[]
    const losses = ['flushed', 'older copy', 'older copy', 'split', 'healed', 'evicted', 'clock']
    const mayLose = !['ends', 'taken', 'checkpoint'].includes(kind)
    const others = ['copied', 'copied', 'down', 'up', 'full', 'late', 'late', 'moved', 'database']
    const what = dice.pick([...(mayLose ? losses : []), ...others])
    note(what)
    if (what === 'flushed') shards[shard] = [new Server(redisNow), other]
    if (what === 'copied') kept.push(server.copy())
    if (what === 'older copy' && kept.length > 0) {
      const older = dice.chance(0.5) ? (kept.at(-1) as Server) : dice.pick(kept)
      shards[shard] = [older.copy(), other]
    }
    if (what === 'split' && other === undefined) shards[shard] = [server, server.copy()]
    if (what === 'healed' && other !== undefined) {
      shards[shard] = [dice.chance(0.5) ? server : other, undefined]
    }
    if (what === 'evicted') {
      if (dice.chance(0.3)) server.marks.clear()
      if (kind === 'evicted') {
        for (const key of [...server.hashes.keys()]) {
          if (dice.chance(0.3)) server.hashes.delete(key)
        }
      }
    }
    if (what === 'down') for (const link of links) if (dice.chance(0.5)) link.isDown = true
    if (what === 'up') for (const link of links) link.isDown = false
    if (what === 'full') server.isFull = !server.isFull
    if (what === 'late') deliverLate()
    if (what === 'clock' && dice.chance(0.25)) redisAhead += dice.below(4_000_000)
    if (what === 'moved' && shards.length > 1) moveSlot(dice.pick(tags))
    if (what === 'database') isDatabaseDown = !isDatabaseDown
  }

  function moveSlot(tag: string): void {
    const from = shardOf(`{${tag}}`)
    const [source] = shards[from] as Shard
    const [target] = shards[1 - from] as Shard
    const isIn = (key: string): boolean => key.includes(`{${tag}}`)
    for (const [key, hash] of source.hashes) if (isIn(key)) target.hashes.set(key, hash)
    for (const [key, mark] of source.marks) if (isIn(key)) target.marks.set(key, mark)
    moved.set(tag, 1 - from)
  }

  function deliverLate(): void {
    for (const link of links) {
      for (const arrive of link.late.splice(0)) {
        try {
          arrive()
        } catch {}
      }
    }
  }

  // The dust settles.
  danger = 0
  await settleBackground()
  deliverLate()
  for (const link of links) Object.assign(link, { trouble: 0, isDown: false })
  isDatabaseDown = false
  for (const [i, [one, other]] of shards.entries()) {
    const left = other !== undefined && dice.chance(0.5) ? other : one
    left.isFull = false
    shards[i] = [left, undefined]
  }
  for (const place of alive()) {
    flushEnvoy(place)
    if (processOf(place, 0) === undefined) await start_(place, 0)
    tell(place)
  }

  /** Every process reads its files, and the writers write; with `fetches` all counters are in use everywhere. */
  async function settle(fetches: boolean): Promise<void> {
    for (const place of alive()) {
      const running = place.processes.filter((each) => each !== undefined && !each.life.isDead)
      for (const each of running) each?.sums.beat()
      if (!running.some((each) => each?.sums.isWriter))
        await running[0]?.sums.becomeWriter().catch(unlessKilled)
      for (const each of running) {
        if (each === undefined) continue
        await each.sums.readAll().catch(unlessKilled)
        for (const tag of tags) {
          for (let i = 0; i < 3; i += 1) await send(each, tag).catch(unlessKilled)
          await each.sums.shared.parts.get(tag)?.mend().catch(unlessKilled)
        }
        if (fetches) await each.sums.shared.fetch(counters, now + 1).catch(unlessKilled)
      }
    }
    now += 60
  }
  // What nobody asks for is restored too, but for single evicted keys, and what only the database has.
  const inUse = kind === 'evicted' || kind === 'durable' || kind === 'resets'
  for (let round = 0; round < 8; round += 1) {
    await settle(inUse)
    await settleBackground()
  }

  const outcome: Outcome = {
    ...{ seed, compared: 0, high: 0, low: 0, highBy: 0, lowBy: 0, disagree: 0, above, faults },
  }
  const shouldKnow = new Map<WindowedCounter, number>()
  for (const [which, counter] of counters.entries()) {
    const window = windowAt(counter, now, told().get(counter.key))
    if (window.end <= now + 10_000 || (kind === 'durable' && window.ms < longMs - 3_600_000))
      continue
    const begun = resets.find((each) => each.counter === which && each.at === window.since)
    let [expected, mayLack] = [begun?.used ?? 0, 0]
    for (const [number, response] of responses.entries()) {
      if (!written.has(number) || !response.which.includes(which)) continue
      if (windowAt(counter, response.time, told().get(counter.key)).id !== window.id) continue
      expected += response.tokens
      if (forgiven.has(number)) mayLack += response.tokens
    }
    const key = keyOf(tagOf(counter.key), window)
    const fields = (shards[shardOf(key)] as Shard)[0].fields(key)
    const stored = fields.get('+') ?? 0
    const sum = [...fields.values()].reduce((all, each) => all + each, 0)
    if (sum !== 2 * stored) outcome.disagree += 1
    outcome.compared += 1
    if (stored > expected) {
      outcome.high += 1
      outcome.highBy += stored - expected
    }
    if (stored < expected - mayLack) {
      outcome.low += 1
      outcome.lowBy += expected - stored
    }
    if (mayLack === 0) shouldKnow.set(counter, stored)
  }
  await settle(true)
  for (const [counter, stored] of shouldKnow) {
    for (const place of alive()) {
      for (const slot of place.processes.keys()) {
        const used = processOf(place, slot)?.sums.shared.read(counter, now + 1).used
        if (used !== undefined && used !== stored) outcome.disagree += 1
      }
    }
  }
  return outcome
}

function numberIn(text: string): number | undefined {
  try {
    // A line may follow one that is torn.
    return JSON.parse(text.slice(Math.max(0, text.lastIndexOf('{"i":')))).i
  } catch {
    return undefined
  }
}

/** Whatever fails but by a death is tried again later. */
function unlessKilled(): undefined {
  return undefined
}
