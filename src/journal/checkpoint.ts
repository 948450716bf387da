/**
 * A gateway's sums and the position up to which its lines were read, both in one file, so that they belong together
 * whenever a process is killed. Each writer has its own file, numbered higher than the one it began with: a writer that
 * was replaced while its disk hung can't overwrite its successor's newer state.
 */

import { type ExactInt, exactFromJson, maxExact } from '../formats/exact.ts'
import { appendTo } from '../formats/lists.ts'
import { parseJson } from '../formats/parse-json.ts'
import type { OwnSum } from '../ratelimit/rules/sums.ts'
import type { CounterReset, Resets } from '../ratelimit/rules/windows.ts'
import { createMutex } from '../runtime/mutex.ts'
import { inSlices } from '../runtime/slices.ts'
import type { DurableFiles } from './durable-files.ts'
import type { JournalPosition } from './follower.ts'

export interface KeptState {
  /** The gateway's name under which the sums were sent, or undefined if unknown. */
  readonly gateway?: string | undefined
  readonly position: JournalPosition
  readonly own: readonly OwnSum[]
  readonly resets: Resets
}

/** A string above 2⁵³ - 1, because readers of JSON round larger numbers. */
type WrittenSum = number | string

type Entry =
  | readonly [
      'position',
      file: string,
      offsets: readonly (readonly [head: string, bytes: number])[],
    ]
  | readonly ['gateway', name: string]
  | readonly ['reset', key: string, at: number, used: WrittenSum]
  | readonly [
      'sum',
      id: string,
      since: number,
      end: number,
      ms: number,
      sum: WrittenSum,
      base: WrittenSum,
    ]

/** Sums written, and lines read, in one slice. */
const sumsOfPart = 512
const linesOfPart = 256

/** `names`: of the current files. `nonce`: of this process. Writes happen in the order of the calls. */
export function createCheckpoint(
  files: DurableFiles,
  name: string,
  names: readonly string[],
  nonce: string,
) {
  const withLock = createMutex()
  let number = 1

  const ownName = (): string => `${name}.${number}.${nonce}`

  /** The number in the name of a checkpoint, complete or not, or undefined for other files. */
  function numberOf(file: string): number | undefined {
    const rest = file.startsWith(`${name}.`) ? file.slice(name.length + 1) : ''
    const [, digits] = /^(\d{1,15})\.[\w-]+(?:\.\d+\.tmp)?$/.exec(rest) ?? []
    return digits === undefined ? undefined : Number(digits)
  }

  /** The checkpoint with the highest number, or the latest writer's if there are several. */
  async function findLatest(writers: readonly string[]): Promise<string | undefined> {
    let latest: readonly [file: string, number: number, place: number] | undefined
    for (const file of await files.names()) {
      const its = numberOf(file)
      if (its === undefined || file.endsWith('.tmp')) continue
      const place = -writers.indexOf(file.slice(file.lastIndexOf('.') + 1))
      const [, most = 0, best = 0] = latest ?? []
      if (latest === undefined || its > most || (its === most && place > best)) {
        latest = [file, its, place]
      }
    }
    return latest?.[0]
  }

  /** Lists again if the file has gone: another writer has saved its own, and removed this one. */
  async function readLatest(writers: readonly string[]) {
    for (let gone: string | undefined; ; ) {
      const latest = await findLatest(writers)
      const text = latest === undefined ? '' : await files.read(latest)
      if (text !== '' || latest === gone) return [latest, text] as const
      gone = latest
    }
  }

  async function write({ gateway, position, own, resets }: KeptState): Promise<JournalPosition> {
    // Copied now, because writing takes time.
    const saved = new Map(position)
    const sums = own.map(({ sum }) => sum)
    const bases = own.map(({ base }) => base)
    const first: Entry[] = names.map((file) => ['position', file, [...saved]])
    if (gateway !== undefined) first.push(['gateway', gateway])
    for (const [key, all] of resets) {
      for (const { at, used } of all) first.push(['reset', key, at, toWritten(used)])
    }
    await files.replace(ownName(), async (put) => {
      await put(textOf(first))
      await inSlices(parts(put))
    })
    return saved

    function* parts(put: (text: string) => Promise<void>): Generator<Promise<void>, void> {
      for (let from = 0; from < own.length; from += sumsOfPart) {
        const entries = own.slice(from, from + sumsOfPart).map((each, i): Entry => {
          const { id, since, end, ms } = each
          const [sum, base] = [sums[from + i] as ExactInt, bases[from + i] as ExactInt]
          return ['sum', id, since, end, ms, toWritten(sum), toWritten(base)]
        })
        yield put(textOf(entries))
      }
    }
  }

  return {
    /**
     * Loads the latest checkpoint; the state is empty if there is none. `writers`: the latest first. Later saves get a
     * higher number.
     */
    async load(writers: readonly string[]): Promise<KeptState> {
      const [latest, text] = await readLatest(writers)
      if (latest !== undefined) number = Math.max(number, (numberOf(latest) ?? 0) + 1)
      return await inSlices(stateIn(text))
    },
    /** Saves what `capture` returns when its turn comes, atomically; resolves with the saved position. */
    save: (capture: () => KeptState): Promise<JournalPosition> => withLock(() => write(capture())),
    /**
     * Appends a window's `base`, which the store has beyond the lines, to this process's checkpoint; resolves once it
     * is on disk.
     */
    noteBase: ({ id, since, end, ms }: OwnSum, base: ExactInt): Promise<void> =>
      withLock(() =>
        // The line end first: an append that filled the disk may have torn the line before.
        files.append(ownName(), `\n${textOf([['sum', id, since, end, ms, 0, toWritten(base)]])}`),
      ),
    /** Removes the checkpoints of earlier writers. Call it once this process has saved its own. */
    async removeEarlier(): Promise<void> {
      for (const file of await files.names()) {
        if ((numberOf(file) ?? number) < number) await files.remove(file)
      }
    },
  }
}

function textOf(entries: readonly Entry[]): string {
  return entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')
}

/**
 * If a window has two entries, the higher values count, which were appended later. Empty and torn lines are skipped:
 * nothing relies on a torn one yet.
 */
function* stateIn(text: string): Generator<undefined, KeptState> {
  const position: JournalPosition = new Map()
  const own = new Map<string, OwnSum>()
  const resets = new Map<string, CounterReset[]>()
  let gateway: string | undefined
  for (const [i, line] of text.split('\n').entries()) {
    if (i % linesOfPart === 0) yield
    const entry = parseJson(line) as Entry | undefined
    if (entry?.[0] === 'position') for (const each of entry[2]) position.set(...each)
    else if (entry?.[0] === 'gateway') gateway = entry[1]
    else if (entry?.[0] === 'reset') {
      const [, key, at, used] = entry
      appendTo(resets, key, { at, used: exactFromJson(used) ?? 0 })
    } else if (entry?.[0] === 'sum') {
      const [, id, since, end, ms, sum, base] = entry
      const known = own.get(id)
      own.set(id, {
        ...{ id, since, end, ms },
        sum: maxExact(known?.sum ?? 0, exactFromJson(sum) ?? 0),
        base: maxExact(known?.base ?? 0, exactFromJson(base) ?? 0),
      })
    }
  }
  return { ...(gateway !== undefined && { gateway }), position, own: [...own.values()], resets }
}

function toWritten(sum: ExactInt): WrittenSum {
  return typeof sum === 'number' ? sum : String(sum)
}
