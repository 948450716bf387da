/** `tollgate usage forget`: removes a user's name from the usage ledger. */

import { forgetUser } from '../usage/ledger/postgres/forget.ts'
import type { Run } from './command.ts'
import type { forgetUsageFlags } from './commands/usage.ts'
import { withDatabase } from './database.ts'
import { formatJson, printable } from './output.ts'
import { confirm } from './terminal.ts'

/** Runs the command; returns the exit status: 1 if nothing was changed. */
export const forgetUsage: Run<typeof forgetUsageFlags> = async (
  { operands: [user = ''], flags },
  io,
) => {
  return await withDatabase(io.env, 'usage', async (sql) => {
    const shown = printable(user)
    if (!flags.yes && !(await confirm(io, `Replace the name ${shown} permanently?`))) return 1
    const { rows, others, name } = await forgetUser(sql, user)
    if (rows + others === 0) {
      io.err(`The ledger has no usage of ${shown}.`)
      return 1
    }
    const said =
      rows > 0
        ? `Renamed ${shown} to ${name} in ${rows.toLocaleString('en')} rows.`
        : `Removed ${shown}, who has no usage, from limits, increases, requests and notices; what remains names ${name}.`
    io.out(flags.json ? formatJson({ rows, name }) : said)
    return 0
  })
}
