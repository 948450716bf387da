/**
 * Compares the journal reader with a simple one. A journal is written in pieces, torn, filled with
 * garbage, NULs and huge lines, rotated, truncated and removed, while processes that end and crash
 * read it. ROUNDS and SEED choose how much; `npm run fuzz:journal` runs many rounds.
 */
import { appendFileSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { createJournalReader, type JournalReader } from '../../../src/ratelimit/journal/reader.ts'
import { lineOf } from '../../support/journaled.ts'
import { createRandom, type Random } from '../../support/random.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'

const rounds = Number(process.env.ROUNDS ?? 10)
const stepsPerRound = 60
const now = 1_795_264_000_000
/** A line of this length or more may be skipped. */
const hugeBytes = 65_536

/** The ids of all whole lines; those that occur only in huge lines are listed apart. */
function readSimply(content: string): { readonly certain: string[]; readonly huge: string[] } {
  const found = { certain: [] as string[], huge: [] as string[] }
  for (const line of content.split('\n').slice(0, -1)) {
    const ids = line.split(/(?=\{"(?:bytes|id)":)/).flatMap((part) => {
      try {
        const { id, user } = JSON.parse(part)
        return user === undefined ? [] : [id as string]
      } catch {
        return []
      }
    })
    found[line.length < hugeBytes ? 'certain' : 'huge'].push(...ids)
  }
  return found
}

/** The line as the access log `journal` writes it; `journal-json` sorts the fields. */
function idFirst(sorted: string): string {
  const { id, ...others } = JSON.parse(sorted)
  return JSON.stringify({ id, ...others })
}

/** What the folder contains, and everything that was ever written to it. */
function createJournal(random: Random, path: string) {
  let lastId = 0
  let rotations = 0
  /** Paths of the existing files; Envoy writes to the last one. */
  const paths = [path]
  const gone: string[] = []

  const line = () => {
    lastId += 1
    const reported = { total_tokens: random.below(1_000) }
    const sorted = lineOf({ id: `id-${lastId}`, start: String(now), reported })
    return random.below(2) === 0 ? sorted : idFirst(sorted)
  }
  const garbage = (bytes: number) =>
    random.bytes(bytes).map((byte) => (byte === 10 || byte === 123 ? 0 : byte))
  const write = (...parts: (string | Uint8Array)[]) =>
    appendFileSync(paths.at(-1) as string, Buffer.concat(parts.map((part) => Buffer.from(part))))
  /** A file begins with a line, which tells it from earlier files with the same inode. */
  const begin = () => writeFileSync(path, `${line()}\n`)
  const anyOld = () => paths[random.below(paths.length)] as string

  const writes: Record<string, () => void> = {
    lines: () => write(...Array.from({ length: 1 + random.below(40) }, () => `${line()}\n`)),
    cut: () => {
      const text = `${line()}\n${line()}\n`
      write(text.slice(0, random.below(text.length)))
    },
    'rest of a cut': () => write('\n'),
    torn: () => write(line().slice(0, random.below(80)), `${line()}\n`),
    'torn before its end': () => write(line(), `${line()}\n`),
    garbage: () => write(garbage(random.below(200)), '\n'),
    'garbage, then a line': () => write(garbage(random.below(200)), `${line()}\n`),
    NULs: () => write(new Uint8Array(random.below(5_000)), `${line()}\n`),
    'of another form': () => write(`{"id":"none"}\n[]\n{}\n\n"${line().replaceAll('"', '\\"')}"\n`),
    huge: () => write('x'.repeat(hugeBytes - 1 + random.below(3)), '\n', `${line()}\n`),
    'huge, in pieces': () => write(garbage(9), 'x'.repeat(40_000)),
    'to a renamed file': () => appendFileSync(anyOld(), `${line()}\n`),
    rotation: () => {
      rotations += 1
      const renamed = `${path}.${rotations}`
      renameSync(path, renamed)
      paths.splice(-1, 1, renamed, path)
      begin()
    },
  }
  /** Changes that remove lines; used only on a journal that has been read to its end. */
  const removals = [
    () => {
      const index = random.below(paths.length)
      const removed = paths[index] as string
      gone.push(readFileSync(removed, 'latin1'))
      rmSync(removed)
      if (removed === path) begin()
      else paths.splice(index, 1)
    },
    () => {
      gone.push(readFileSync(path, 'latin1'))
      begin()
    },
  ]
  begin()
  return {
    write: () => pick(random, Object.values(writes))(),
    remove: () => pick(random, removals)(),
    endLines: () => {
      for (const each of paths) appendFileSync(each, '\n')
    },
    contents: () => [...gone, ...paths.map((each) => readFileSync(each, 'latin1'))],
  }
}

function pick<T>(random: Random, from: readonly T[]): T {
  return from[random.below(from.length)] as T
}

/**
 * Runs one journal from its first line to its end. Returns the difference from what was written, if
 * there is one.
 */
async function compare(t: Test, seed: number): Promise<string | undefined> {
  const random = createRandom(seed)
  const folder = makeTemporaryFolder()
  t.teardown(folder.remove)
  const path = join(folder.path, 'usage.jsonl')
  const journal = createJournal(random, path)
  const settled: string[] = []
  let isCrashing = false
  let crashes = 0
  const newReader = (): JournalReader =>
    createJournalReader({
      path,
      lasting: true,
      settle: ({ response }) => settled.push(response?.id ?? ''),
      counters: {
        async kept() {
          if (isCrashing) throw new Error('the process has crashed')
        },
        async forgetReports() {},
      },
      clock: () => now,
      mayRead: () => true,
      onProblem() {},
    })
  let reader = newReader()
  for (let step = 0; step < stepsPerRound; step += 1) {
    for (let count = random.below(6); count > 0; count -= 1) journal.write()
    isCrashing = random.below(12) === 0
    const reading = reader.readAll().then(
      () => 'read',
      () => 'crashed',
    )
    // Written during the reading.
    for (let count = random.below(4); count > 0; count -= 1) {
      await turn()
      journal.write()
    }
    const end = await reading
    if (end === 'crashed' || random.below(8) === 0) {
      if (end === 'crashed') crashes += 1
      await reader.reset()
      reader = newReader()
    } else if (!isCrashing && random.below(6) === 0) {
      journal.endLines()
      await reader.readAll()
      journal.remove()
    }
  }
  isCrashing = false
  journal.endLines()
  await reader.readAll()
  await reader.readAll()
  const { unreadBytes } = reader.stats
  const found = journal.contents().map(readSimply)
  await reader.reset()
  folder.remove()

  const certain = found.flatMap((file) => file.certain)
  const known = new Set([...certain, ...found.flatMap((file) => file.huge)])
  const seen = new Set(settled)
  const missing = certain.filter((id) => !seen.has(id))
  const invented = settled.filter((id) => !known.has(id))
  if (missing.length > 0) return `not read: ${missing}`
  if (invented.length > 0) return `never written: ${invented}`
  if (unreadBytes > 0) return `${unreadBytes} bytes left`
  // After a crash, lines that may not have been counted are reported again; the counters recognize
  // them.
  if (crashes === 0 && seen.size < settled.length) return 'read twice'
  return undefined
}

test('a corrupted journal gives the same lines as a clean one', async (t) => {
  const { seed } = createRandom()
  t.comment(`SEED=${seed} ROUNDS=${rounds}`)
  for (let round = 0; round < rounds; round += 1) {
    const difference = await compare(t, seed + round)
    if (difference !== undefined) t.fail(`SEED=${seed + round} ROUNDS=1: ${difference}`)
  }
  t.pass('all rounds')
})
