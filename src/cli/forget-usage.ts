/** `tollgate usage forget`: removes a user's name from the usage ledger. */

import { forgetUser } from '../usage/ledger/postgres/forget.ts'
import type { Call } from './command.ts'
import type { forgetUsageFlags } from './commands/usage.ts'
import { withDatabase } from './database.ts'
import { toJson } from './json.ts'
import { agrees, type CommandIo } from './terminal.ts'
import { printable } from './text-table.ts'

/** Runs the command; returns the exit status: 1 if nothing was changed. */
export async function forgetUsage(
  { operands: [user = ''], flags }: Call<typeof forgetUsageFlags>,
  io: Pick<CommandIo, 'env' | 'out' | 'err' | 'ask'>,
): Promise<number> {
  return await withDatabase(io.env, 'usage', async (sql) => {
    const shown = printable(user)
    if (!flags.yes && !(await agrees(io, `Replace the name ${shown} permanently?`))) return 1
    const { rows, name } = await forgetUser(sql, user)
    if (rows === 0) {
      io.err(`The ledger has no usage of ${shown}.`)
      return 1
    }
    const said = `Renamed ${shown} to ${name} in ${rows.toLocaleString('en')} rows.`
    io.out(flags.json ? toJson({ rows, name }) : said)
    return 0
  })
}
