/** Which files belong to one USAGE_JOURNAL. Their names are made from its path alone, never from a request. */

import { basename, dirname, extname, join } from 'node:path'

/** Paths in the folder that a gateway and its service processes share. */
export interface JournalFiles {
  readonly folder: string
  /** The lines that the gateway's script writes. */
  readonly script: string
  /** The lines that Envoy itself writes: of what the script has not, and of requests that run. */
  readonly envoy: string
  /** Tells the script which file is the current one (head-file.ts). */
  readonly head: string
  /** What the gateway decides by itself, and what its responses have used since they were counted (docs/table.md). */
  readonly table: string
  readonly lanes: string
  /** Room that is freed when the file system is full (ballast.ts). */
  readonly ballast: string
  /** The gateway's name among those that share counters (name.ts). */
  readonly name: string
}

/** Paths in the folder that outlives the machine's memory. */
interface KeptJournal {
  readonly folder: string
  /** The gateway's name, as in the other folder. */
  readonly name: string
}

/** `usage.jsonl` → `usage.jsonl`, `usage.envoy.jsonl`, `usage.head` and so on, in its folder. */
export function filesOf(usageJournal: string): JournalFiles {
  const folder = dirname(usageJournal)
  const at = (end: string): string => join(folder, stemOf(usageJournal) + end)
  return {
    folder,
    script: at('.jsonl'),
    envoy: at('.envoy.jsonl'),
    head: at('.head'),
    table: at('.table'),
    lanes: at('.lanes'),
    ballast: at('.ballast'),
    name: at('.name'),
  }
}

/** What is kept of it below DATA_DIR, with copies of its files; the two folders may be the same. */
export function keptJournalOf(usageJournal: string, dataDir: string): KeptJournal {
  const folder = join(dataDir, 'journal')
  return { folder, name: join(folder, `${stemOf(usageJournal)}.name`) }
}

/** When a file of this name was renamed to `name`, in milliseconds since the epoch; undefined: it is no such name. */
export function renamedAt(name: string, file: string): number | undefined {
  const digits = name.startsWith(`${file}.`) ? name.slice(file.length + 1) : ''
  return /^\d{13}$/.test(digits) ? Number(digits) : undefined
}

/** Which of the files that grow this one is, or was renamed from; undefined: it is another file. */
export function growingOf(name: string, files: readonly string[]): string | undefined {
  return files.find((file) => name === file || renamedAt(name, file) !== undefined)
}

function stemOf(usageJournal: string): string {
  return basename(usageJournal, extname(usageJournal))
}
