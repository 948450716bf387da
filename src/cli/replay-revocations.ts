/**
 * `tollgate revocations replay`: revokes the keys in files of REVOCATION_LOG_DIR again in a
 * database.
 */

import { endAgain } from '../keys/revocations/ended-keys.ts'
import { readFile } from '../keys/revocations/revocation-file.ts'
import type { Pool } from '../store/postgres/postgres.ts'
import type { Call } from './command.ts'
import type { json } from './commands/flags.ts'
import { withDatabase } from './database.ts'
import { toJson } from './json.ts'
import type { CommandIo } from './terminal.ts'

/** Runs the command; returns the exit status: 1 if a line could not be read or a key not be revoked. */
export async function replay(
  { operands: files, flags }: Call<typeof json>,
  { env, out, err }: Pick<CommandIo, 'env' | 'out' | 'err'>,
): Promise<number> {
  return await withDatabase(env, 'revocations', async (sql) => {
    const done: Replayed[] = []
    for (const file of files) {
      const replayed = await replayFile(sql, file)
      done.push(replayed)
      const { revocations, ended, broken, left } = replayed
      if (!flags.json)
        out(
          `${file}: ${revocations} revocations, ${ended} of keys that were active again and are now revoked.`,
        )
      if (broken > 0) err(`${file}: ${broken} lines cannot be read.`)
      if (left > 0) err(`${file}: ${left} keys are locked by a transaction; repeat the command.`)
    }
    if (flags.json) out(toJson({ object: 'list', data: done }))
    return done.some(({ broken, left }) => broken + left > 0) ? 1 : 0
  })
}

interface Replayed {
  readonly file: string
  readonly revocations: number
  /** Keys that were active and are revoked now. */
  readonly ended: number
  readonly broken: number
  readonly left: number
}

async function replayFile(sql: Pool, file: string): Promise<Replayed> {
  const hashes: string[] = []
  const { broken } = await readFile(file, ({ hash }) => hashes.push(hash)).catch(
    (error: NodeJS.ErrnoException) => {
      throw new Error(`${file} cannot be read (${error.code}).`)
    },
  )
  const { ids, left } = await endAgain(sql, hashes)
  return { file, revocations: hashes.length, ended: ids.length, broken, left }
}
