/**
 * `tollgate revocations replay`: revokes the keys in files of REVOCATION_LOG_DIR again in a
 * database.
 */

import {
  type EndedKey,
  expireWithSecrets,
  revokeEndedKeysAgain,
} from '../keys/revocations/ended-keys.ts'
import { readRevocationFile } from '../keys/revocations/revocation-file.ts'
import type { Pool } from '../store/postgres/postgres.ts'
import type { Run } from './command.ts'
import type { jsonFlag } from './commands/flags.ts'
import { withDatabase } from './database.ts'
import { formatJson, printable } from './output.ts'

/** Runs the command; returns the exit status: 1 if a file or line could not be read or a key not be revoked. */
export const replayRevocations: Run<typeof jsonFlag> = async (
  { operands: files, flags },
  { env, out, err },
) => {
  return await withDatabase(env, 'revocations', async (sql) => {
    const done: Replayed[] = []
    for (const file of files) {
      const replayed = await replayFile(sql, file, err)
      if (replayed === undefined) continue
      done.push(replayed)
      const { revocations, ended, expiring, broken, left } = replayed
      const name = printable(file)
      if (!flags.json)
        out(
          `${name}: ${revocations} revocations, ${ended} of keys that were active again and are now revoked.`,
        )
      if (!flags.json && expiring > 0)
        out(`${name}: ${expiring} keys expire when the overlap of their rotation ends.`)
      if (broken > 0) err(`${name}: ${broken} lines cannot be read.`)
      if (left > 0) err(`${name}: ${left} keys are locked by a transaction; repeat the command.`)
    }
    if (flags.json) out(formatJson({ object: 'list', data: done }))
    const isWhole = done.length === files.length
    return isWhole && done.every(({ broken, left }) => broken + left === 0) ? 0 : 1
  })
}

interface Replayed {
  readonly file: string
  readonly revocations: number
  /** Keys that were active and are revoked now. */
  readonly ended: number
  /** Keys that were rotated after the backup: they end with the secret that was replaced. */
  readonly expiring: number
  readonly broken: number
  readonly left: number
}

/** Undefined if the file cannot be read, which is reported: the others are replayed. */
async function replayFile(
  sql: Pool,
  file: string,
  report: (line: string) => void,
): Promise<Replayed | undefined> {
  const now = Date.now()
  const [ended, later]: [EndedKey[], EndedKey[]] = [[], []]
  const content = await readRevocationFile(file, (key) =>
    ((key.endsAt ?? 0) <= now ? ended : later).push(key),
  ).catch(({ code }: NodeJS.ErrnoException) =>
    report(`${printable(file)} cannot be read (${code}).`),
  )
  if (!content) return undefined
  const { ids, left } = await revokeEndedKeysAgain(
    sql,
    ended.map(({ hash }) => hash),
  )
  return {
    file,
    revocations: ended.length + later.length,
    ended: ids.length,
    expiring: later.length === 0 ? 0 : await expireWithSecrets(sql, later),
    broken: content.broken,
    left,
  }
}
