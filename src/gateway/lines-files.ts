/** The files of USAGE_JOURNAL that Envoy is told of. */

import { basename, dirname, extname, join } from 'node:path'
import type { LinesFiles } from './bootstrap.ts'

/** `usage.jsonl` → `usage.jsonl`, `usage.head` and `usage.envoy.jsonl` of its folder. */
export function linesFilesOf(usageJournal: string): LinesFiles {
  const stem = join(dirname(usageJournal), basename(usageJournal, extname(usageJournal)))
  return { script: `${stem}.jsonl`, head: `${stem}.head`, envoy: `${stem}.envoy.jsonl` }
}
