/** `tollgate usage forget`: removes a user's name from the usage ledger. */

import { parseArgs } from 'node:util'
import { forgetUser } from '../store/usage/forget.ts'
import { withDatabase } from './database.ts'
import { printable } from './table.ts'
import { agrees, type CommandIo, terminal } from './terminal.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate usage forget <user> [--yes]

Replaces the name of a user in the usage ledger of DATABASE_URL by a random one; the sums stay. This cannot be undone.
It asks first, unless --yes is given. Files of the journal and of logs, and the user's API keys, keep the name: revoke the
keys first.`

type Io = Pick<CommandIo, 'env' | 'out' | 'err' | 'ask'>

/** Runs the command; returns the exit status: 1 if nothing was changed, 2 for invalid arguments. */
export async function forgetUsage(args: readonly string[], io: Io = terminal): Promise<number> {
  const call = readCall(args, usage, readArguments, io)
  if (typeof call === 'number') return call
  return await withDatabase(io.env, 'usage', async (sql) => {
    const shown = printable(call.user)
    if (!call.yes && !(await agrees(io, `Replace the name ${shown} for good?`))) return 1
    const { rows, name } = await forgetUser(sql, call.user)
    if (rows === 0) {
      io.err(`The ledger has no usage of ${shown}.`)
      return 1
    }
    io.out(`${rows.toLocaleString('en')} rows of ${shown} are now of ${name}.`)
    return 0
  })
}

function readArguments(args: string[]) {
  const options = { yes: { type: 'boolean', default: false } } as const
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
  const [user, ...rest] = positionals
  return user === undefined || rest.length > 0 ? undefined : { user, yes: values.yes }
}
