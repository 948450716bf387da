/**
 * `tollgate revocations replay`: revokes the keys in files of REVOCATION_LOG_DIR again in a
 * database.
 */

import { parseArgs } from 'node:util'
import type { Pool } from '../store/postgres/postgres.ts'
import { endAgain } from '../store/revocations/ended-keys.ts'
import { readFile } from '../store/revocations/revocation-file.ts'
import { withDatabase } from './database.ts'
import { type CommandIo, terminal } from './terminal.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate revocations replay <file>...

Revokes in the database of DATABASE_URL every key that is revoked in one of these files and active in
the database, because the database was restored from an older backup. The files are those that each
process writes in REVOCATION_LOG_DIR (revocations-<process>.jsonl). A process does the same with all
files in its folder, at its start and whenever it finds that the database has lost revocations. The
command may be repeated.`

type Io = Pick<CommandIo, 'env' | 'out' | 'err'>

/**
 * Runs the command; returns the exit status: 1 if a line could not be read or a key not be revoked;
 * 2 for invalid arguments.
 */
export async function revocations(args: readonly string[], io: Io = terminal): Promise<number> {
  const files = readCall(args, usage, filesOf, io)
  if (typeof files === 'number') return files
  return await withDatabase(io.env, 'revocations', async (sql) => {
    let status = 0
    for (const file of files) status = Math.max(status, await replay(sql, file, io))
    return status
  })
}

function filesOf(args: string[]): readonly string[] | undefined {
  const { positionals } = parseArgs({ args, allowPositionals: true })
  const [command, ...files] = positionals
  return command === 'replay' && files.length > 0 ? files : undefined
}

async function replay(sql: Pool, file: string, { out, err }: Io): Promise<number> {
  const hashes: string[] = []
  const { broken } = await readFile(file, ({ hash }) => hashes.push(hash)).catch(
    (error: NodeJS.ErrnoException) => {
      throw new Error(`${file} cannot be read (${error.code}).`)
    },
  )
  const { ids, left } = await endAgain(sql, hashes)
  out(`${file}: ${hashes.length} revocations, ${ids.length} of keys that were active again.`)
  if (broken > 0) err(`${file}: ${broken} lines cannot be read.`)
  if (left > 0) err(`${file}: ${left} keys are locked by a transaction; repeat the command.`)
  return broken + left > 0 ? 1 : 0
}
