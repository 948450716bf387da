/** Runs a command line: words in, output and exit status out. */

import { errorMessage } from '../runtime/error-message.ts'
import { readVersion } from '../runtime/package-root.ts'
import { ApiRefusal } from './api-client.ts'
import { type Command, type Run, Unreachable, WrongCall } from './command.ts'
import { rewordApiMessage } from './command-words.ts'
import { commands, runners } from './commands.ts'
import { allCommandsHelp, commandHelp } from './help.ts'
import { printableLines } from './output.ts'
import { parseCommand, WrongCommand } from './parse-command.ts'
import { type CommandIo, terminal } from './terminal.ts'

/** Runs the command that these words name; returns its exit status. Rejects only for a bug. */
export async function runCommand(
  argv: readonly string[],
  io: CommandIo = terminal,
): Promise<number> {
  let command: Command | undefined
  try {
    if (argv.length === 0) {
      io.err(allCommandsHelp(commands.all))
      return 2
    }
    const asked = parseCommand(argv, commands)
    if (asked.asks === 'version') io.out(readVersion())
    if (asked.asks === 'help') io.out(await commandHelp(asked.words, commands.all))
    if (asked.asks !== 'run') return 0
    command = asked.command
    if (asked.old !== undefined) {
      const { old, command: now } = asked
      io.err(`tollgate ${old} is now tollgate ${now.name}; the next release removes the old name.`)
    }
    const run = runners.get(command.name) as Run
    return await run(asked.call, io)
  } catch (error) {
    if (isBug(error)) throw error
    io.err(printableLines(sentenceOf(error, command)))
    return error instanceof WrongCall ? 2 : isUnreachable(error) ? 3 : 1
  }
}

function sentenceOf(error: unknown, command: Command | undefined): string {
  if (error instanceof WrongCall) {
    const words = error instanceof WrongCommand ? error.words : [command?.name ?? '']
    return `${error.message} See ${['tollgate', ...words, '--help'].join(' ')}.`
  }
  if (error instanceof ApiRefusal && command) return rewordApiMessage(command, error.message)
  const { cause } = error as Error
  const text = errorMessage(error)
  const isNew = cause instanceof Error && !text.includes(cause.message)
  return isNew ? `${text} (${cause.message})` : text
}

/** Also for a database: its error may be the cause of another one. */
function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code, cause } = error as NodeJS.ErrnoException
  const isAway = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ETIMEDOUT)$/.test(`${code}`)
  return error instanceof Unreachable || isAway || isUnreachable(cause)
}

/** An error that the user can fix is a sentence with its causes. */
function isBug(error: unknown): boolean {
  return (
    error instanceof Error &&
    ['TypeError', 'RangeError', 'ReferenceError', 'SyntaxError'].includes(error.name)
  )
}
