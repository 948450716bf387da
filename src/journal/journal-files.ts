/** Names of the files that belong to one USAGE_JOURNAL. They are made from its path alone, never from a request. */

import { basename, dirname, extname, join } from 'node:path'

export type JournalFiles = ReturnType<typeof journalFilesOf>

/**
 * Paths in the folder that a gateway and its service processes share: `usage.jsonl` → `usage.jsonl`,
 * `usage.envoy.jsonl`, `usage.head` and so on, in its folder.
 */
export function journalFilesOf(usageJournal: string) {
  const folder = dirname(usageJournal)
  const at = (end: string): string => join(folder, stemOf(usageJournal) + end)
  return {
    folder,
    /** Lines written by the gateway's script. */
    script: at('.jsonl'),
    /** Lines written by Envoy itself: for running requests, and for requests whose line the script could not write. */
    envoy: at('.envoy.jsonl'),
    /** Tells the script when its file was renamed (head-file.ts). */
    head: at('.head'),
    /** The decision table: grants, and the lanes with the tokens of responses (docs/table.md). */
    table: at('.table'),
    lanes: at('.lanes'),
    /** Space that is freed when the file system is full (ballast.ts). */
    ballast: at('.ballast'),
    /** The gateway's name among the gateways that share counters (gateway-name.ts). */
    name: at('.name'),
  }
}

/** The file with the journal's name in the ledger, of which there is a copy below DATA_DIR. */
export function ledgerNameOf(usageJournal: string): string {
  return `${usageJournal}.name`
}

/**
 * The journal's folder below DATA_DIR, with copies of its files, which survive a reboot; may be the same folder. `name`:
 * the file with the gateway's name, as in the shared folder.
 */
export function keptJournalOf(usageJournal: string, dataDir: string) {
  const folder = join(dataDir, 'journal')
  return { folder, name: join(folder, `${stemOf(usageJournal)}.name`) }
}

/** When `file` was rotated to `name`, in milliseconds since the epoch, or undefined if `name` has another form. */
export function rotatedAt(name: string, file: string): number | undefined {
  const digits = name.startsWith(`${file}.`) ? name.slice(file.length + 1) : ''
  return /^\d{13}$/.test(digits) ? Number(digits) : undefined
}

/** An unused name for a file that is rotated at this time, in milliseconds since the epoch, or a little later. */
export function rotatedName(file: string, at: number, taken: ReadonlySet<string>): string {
  for (let ms = Math.max(0, at); ; ms += 1) {
    // A wrong clock, or a copy that has lost its time, may give fewer digits.
    const name = `${file}.${String(ms).padStart(13, '0')}`
    if (!taken.has(name)) return name
  }
}

/** The one of these base names that a current or rotated file has, or undefined for other files. */
export function baseNameOf(name: string, files: readonly string[]): string | undefined {
  return files.find((file) => name === file || rotatedAt(name, file) !== undefined)
}

function stemOf(usageJournal: string): string {
  return basename(usageJournal, extname(usageJournal))
}
