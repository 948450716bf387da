/** Faults of the files of a decision table. */

import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'

export interface TablePlaces {
  readonly table: string
  readonly lanes: string
}

/** Of a USAGE_JOURNAL. */
export function tablePlaces(journal: string): TablePlaces {
  const stem = journal.replace(/\.jsonl$/, '')
  return { table: `${stem}.table`, lanes: `${stem}.lanes` }
}

function replace(path: string, content: Buffer): void {
  writeFileSync(`${path}.other`, content, { mode: statSync(path).mode })
  renameSync(`${path}.other`, path)
}

/** Changes bytes in place, so that processes with an open descriptor read them. */
function overwrite(path: string, at: number, bytes: Buffer): void {
  const content = readFileSync(path)
  bytes.copy(content, at)
  writeFileSync(path, content, { flag: 'r+' })
}

/** The faults by name; each leaves the service and Envoy running. */
export const fileFaults: Readonly<Record<string, (places: TablePlaces) => void>> = {
  'both deleted': ({ table, lanes }) => {
    rmSync(table)
    rmSync(lanes)
  },
  'the table deleted': ({ table }) => rmSync(table),
  'lanes deleted': ({ lanes }) => rmSync(lanes),
  'the table emptied': ({ table }) => truncateSync(table, 0),
  'the table cut after its head': ({ table }) => truncateSync(table, 100),
  'the table cut in a bucket': ({ table }) => truncateSync(table, 4_096 + 300),
  'the table cut in half': ({ table }) => truncateSync(table, Math.floor(statSync(table).size / 2)),
  'lanes emptied': ({ lanes }) => truncateSync(lanes, 0),
  'lanes cut': ({ lanes }) => truncateSync(lanes, 4_096 + 50),
  'another form': ({ table }) => overwrite(table, 8, Buffer.from([2])),
  'a head of zeros': ({ table }) => overwrite(table, 0, Buffer.alloc(96)),
  'garbage in its place': ({ table }) => overwrite(table, 0, randomBytes(statSync(table).size)),
  'garbage in the buckets': ({ table }) => overwrite(table, 4_096, randomBytes(2 ** 20)),
  'garbage in the lanes': ({ lanes }) => overwrite(lanes, 0, randomBytes(4_096)),
  'other garbage': ({ table }) => replace(table, randomBytes(50_000)),
  'an empty file': ({ table }) => replace(table, Buffer.alloc(0)),
  'a copy of itself': ({ table }) => replace(table, readFileSync(table)),
  'copies of both': ({ table, lanes }) => {
    for (const path of [lanes, table]) copyFileSync(path, `${path}.copy`)
    for (const path of [lanes, table]) renameSync(`${path}.copy`, path)
  },
  'a pipe': ({ table }) => {
    // Beside it: the service may create a table there at once.
    execFileSync('mkfifo', [`${table}.pipe`])
    renameSync(`${table}.pipe`, table)
  },
  'a link to nowhere': ({ table }) => {
    symlinkSync(`${table}.nowhere`, `${table}.link`)
    renameSync(`${table}.link`, table)
  },
  'a link to endless zeros': ({ lanes }) => {
    symlinkSync('/dev/zero', `${lanes}.link`)
    renameSync(`${lanes}.link`, lanes)
  },
  'what an earlier process has left': ({ table, lanes }) => {
    for (const path of [table, lanes]) {
      if (existsSync(`${path}.earlier`)) renameSync(`${path}.earlier`, path)
      copyFileSync(path, `${path}.earlier`)
    }
  },
}
