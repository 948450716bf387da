/** What random schedules of faults are about: counters, kinds of schedules, and what is known while one runs. */

import { crc32 } from '../../../../src/formats/base62.ts'
import type { ExactInt } from '../../../../src/formats/exact.ts'
import type {
  CounterReset,
  Resets,
  WindowedCounter,
} from '../../../../src/ratelimit/rules/windows.ts'
import type { GatewaySums } from '../../../../src/ratelimit/sums/gateway-sums.ts'
import {
  createDice,
  type Dice,
  type Disk,
  type Life,
  type LineWriter,
  type Link,
} from '../model.ts'

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
  highBy: ExactInt
  lowBy: ExactInt
  /** Totals that are not the sums of their fields, or not what a process knows. */
  disagree: number
  /** How often a process knew of more than was used, or of less than before. */
  above: number
  readonly faults: Map<string, number>
}

export interface Response {
  readonly time: number
  readonly tokens: ExactInt
  readonly which: readonly number[]
}

export interface Reset extends CounterReset {
  readonly counter: number
  readonly untold: Set<Place>
}

export interface Running {
  readonly sums: GatewaySums
  readonly life: Life
  readonly link: Link
  readonly sending: Set<string>
  /** The resets that it was told of. */
  readonly known: Set<Reset>
}

export interface Place {
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

export const [scriptFile, envoyFile] = ['usage.jsonl', 'usage.envoy.jsonl'] as const
const start = 1_800_000_000_000
/** From here on within a day clocks are put forward in Berlin, or back: these days are shorter and longer. */
const changes = [Date.UTC(2027, 2, 27, 12), Date.UTC(2027, 9, 30, 12)]

/** What all parts of a schedule share. */
export interface World {
  readonly seed: number
  readonly kind: Kind
  readonly dice: Dice
  now: number
  /** Hash tags of counters. */
  readonly tags: readonly string[]
  tagOf(key: string): string
  readonly faults: Map<string, number>
  note(fault: string): void
  /** Steps that nobody waits for. */
  readonly background: Set<Promise<unknown>>
  readonly responses: Response[]
  /** What each response has beyond a few tokens: of money sums are large. */
  readonly large: ExactInt
  /** Numbers of the responses whose lines are in a file. */
  readonly written: Set<number>
  /** Lines that may have been counted before it was known of a reset that they follow. */
  readonly forgiven: Set<number>
  readonly parsed: Set<number>
  readonly resets: Reset[]
  readonly places: Place[]
  /** Chance of each step to be the last one of its process. */
  danger: number
  isDiskSlow: boolean
}

export function createWorld(seed: number, kind: Kind): World {
  const dice = createDice(seed * 16 + kind.length)
  const now = dice.chance(0.3)
    ? dice.pick(changes) + dice.below(86_400) * 1_000
    : start + dice.below(40 * 86_400) * 1_000
  const tags = dice.chance(0.4) ? ['0', '1', '2', '3'] : ['all']
  const faults = new Map<string, number>()
  const large = dice.pick<ExactInt>([0, 2 ** 53 - 3_000, 2n ** 54n])
  return {
    ...{ seed, kind, dice, now, tags, faults, large, danger: 0, isDiskSlow: false },
    tagOf: (key) => (tags.length === 1 ? 'all' : String(crc32(key) % 4)),
    note: (fault) => void faults.set(fault, (faults.get(fault) ?? 0) + 1),
    ...{ background: new Set(), responses: [], written: new Set(), forgiven: new Set() },
    ...{ parsed: new Set(), resets: [], places: [] },
  }
}

/** The resets that there are, by the keys of counters. */
export function resetsIn({ resets }: World): Resets {
  const all = Map.groupBy(resets, ({ counter }) => (counters[counter] as WindowedCounter).key)
  return new Map([...all].map(([key, each]) => [key, each.map(({ at, used }) => ({ at, used }))]))
}

export function alive({ places }: World): Place[] {
  return places.filter(({ isGone }) => !isGone)
}

export function processOf(place: Place, slot: number): Running | undefined {
  const running = place.processes[slot]
  return running === undefined || running.life.isDead ? undefined : running
}

export function numberIn(text: string): number | undefined {
  try {
    // A line may follow one that is torn.
    return JSON.parse(text.slice(Math.max(0, text.lastIndexOf('{"i":')))).i
  } catch {
    return undefined
  }
}

/** Whatever fails but by a death is tried again later. */
export function unlessKilled(): undefined {
  return undefined
}
