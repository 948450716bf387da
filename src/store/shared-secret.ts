/** Secrets that only the processes of an installation know. */

import { randomBytes } from 'node:crypto'
import { withDeadline } from './postgres/postgres.ts'
import type { Sql } from './postgres/sql.ts'

/** Returns the secret with this name: 32 random bytes, created by the first process that reads it. */
export async function readSharedSecret(sql: Sql, name: string): Promise<Buffer> {
  await withDeadline(sql`
    insert into tollgate_secrets (name, value) values (${name}, ${randomBytes(32).toString('hex')})
    on conflict (name) do nothing`)
  const [row] = await withDeadline(
    sql<{ value: string }[]>`select value from tollgate_secrets where name = ${name}`,
  )
  return Buffer.from((row as { value: string }).value, 'hex')
}
