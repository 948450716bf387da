/**
 * Compares what follows a file of lines with a simple reader. The file is written in pieces, torn, filled with
 * garbage, NULs and huge lines, renamed, replaced and removed, while processes that end and crash
 * read it. ROUNDS and SEED choose how much; `npm run fuzz:journal` runs many rounds.
 */
import { appendFileSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import {
  createJournalFollower,
  type JournalFollower,
  type JournalPosition,
} from '../../src/journal/follower.ts'
import { openJournalFolder } from '../../src/journal/journal-folder.ts'
import { parseJournalLine } from '../../src/journal/journal-line.ts'
import { inSlices } from '../../src/runtime/slices.ts'
import { earlierLine, envoyLine, scriptLine } from '../support/line-of.ts'
import { createRandom, type Random } from '../support/random.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'

const rounds = Number(process.env.ROUNDS ?? 10)
const stepsPerRound = 60
const now = 1_795_264_000_000
/** A line of this length or more may be skipped. */
const hugeBytes = 65_536

/** The ids of all whole lines; those that occur only in huge lines are listed apart. */
function readSimply(content: string): { readonly certain: string[]; readonly huge: string[] } {
  const found = { certain: [] as string[], huge: [] as string[] }
  for (const line of content.split('\n').slice(0, -1)) {
    // What was torn is in front of the rest.
    const [last = ''] = line.split(/(?=\{"(?:bytes|id|v)":)/).slice(-1)
    const id = idOf(last)
    if (id !== undefined) found[line.length < hugeBytes ? 'certain' : 'huge'].push(id)
  }
  return found
}

/** Of any form. */
function idOf(text: string): string | undefined {
  try {
    const { id, user, check } = JSON.parse(text)
    if (check === undefined) return user === undefined ? undefined : id
    return (typeof check === 'string' ? JSON.parse(check) : check).id
  } catch {
    return undefined
  }
}

const forms = [
  scriptLine,
  envoyLine,
  earlierLine,
  // Of Envoy's two logs before, one sorted the fields.
  (fields: object) => {
    const { id, ...others } = JSON.parse(earlierLine(fields))
    return `${JSON.stringify({ id, ...others })}\n`
  },
]

/** What the folder contains, and everything that was ever written to it. */
function createJournal(random: Random, path: string) {
  let lastId = 0
  let rotations = 0
  /** Paths of the existing files; Envoy writes to the last one. */
  const paths = [path]
  const gone: string[] = []

  /** With its ends. */
  const line = () => {
    lastId += 1
    const reported = { total_tokens: random.below(1_000) }
    return pick(random, forms)({ id: `id-${lastId}`, start: now, reported })
  }
  const garbage = (bytes: number) =>
    random.bytes(bytes).map((byte) => (byte === 10 || byte === 123 ? 0 : byte))
  const write = (...parts: (string | Uint8Array)[]) =>
    appendFileSync(paths.at(-1) as string, Buffer.concat(parts.map((part) => Buffer.from(part))))
  /** A file begins with a line, which tells it from earlier files with the same inode. */
  const begin = () => writeFileSync(path, line())
  const anyOld = () => paths[random.below(paths.length)] as string

  const writes: Record<string, () => void> = {
    lines: () => write(...Array.from({ length: 1 + random.below(40) }, line)),
    cut: () => {
      const text = line() + line()
      write(text.slice(0, random.below(text.length)))
    },
    'rest of a cut': () => write('\n'),
    torn: () => write(line().slice(0, random.below(80)), envoyLine({ id: `torn-${lastId}` })),
    framed: () => write(line().slice(0, random.below(80)), scriptLine({ id: `framed-${lastId}` })),
    garbage: () => write(garbage(random.below(200)), '\n'),
    'garbage, then a line': () => write(garbage(random.below(200)), line()),
    NULs: () => write(new Uint8Array(random.below(5_000)), line()),
    'of another form': () => write(`{"id":"none"}\n[]\n{}\n\n${JSON.stringify(line().trim())}\n`),
    huge: () => write('x'.repeat(hugeBytes - 1 + random.below(3)), '\n', line()),
    'huge, in pieces': () => write(garbage(9), 'x'.repeat(40_000)),
    'to a renamed file': () => appendFileSync(anyOld(), line()),
    rotation: () => {
      rotations += 1
      const renamed = `${path}.${now + rotations}`
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
  const taken: string[] = []
  let position: JournalPosition = new Map()
  let saved = new Map(position)
  const newFollower = (): JournalFollower => {
    position = new Map(saved)
    return createJournalFollower({
      ...{
        folder: openJournalFolder(folder.path),
        names: ['usage.jsonl'],
        position,
        now: () => now,
      },
      onLine: (line) => taken.push(...[parseJournalLine(line)?.usage.response.id ?? []].flat()),
    })
  }
  let follower = newFollower()
  let crashes = 0
  for (let step = 0; step < stepsPerRound; step += 1) {
    for (let count = random.below(6); count > 0; count -= 1) journal.write()
    for (const _ of follower.readAll()) if (random.below(3) === 0) journal.write()
    const isCrashing = random.below(12) === 0
    if (isCrashing) crashes += 1
    else saved = new Map(position)
    if (isCrashing || random.below(8) === 0) {
      follower.close()
      follower = newFollower()
    } else if (random.below(6) === 0) {
      journal.endLines()
      await inSlices(follower.readAll())
      saved = new Map(position)
      journal.remove()
    }
  }
  journal.endLines()
  await inSlices(follower.readAll())
  const found = journal.contents().map(readSimply)
  const unreadBytes = follower.unreadBytes
  follower.close()
  folder.remove()

  const certain = found.flatMap((file) => file.certain)
  const known = new Set([...certain, ...found.flatMap((file) => file.huge)])
  const seen = new Set(taken)
  const missing = certain.filter((id) => !seen.has(id))
  const invented = taken.filter((id) => !known.has(id))
  if (missing.length > 0) return `not read: ${missing}`
  if (invented.length > 0) return `never written: ${invented}`
  if (unreadBytes > 0) return `${unreadBytes} bytes left`
  // What a crashed process has not saved is taken again.
  if (crashes === 0 && seen.size < taken.length) return 'read twice'
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
