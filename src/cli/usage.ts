/** What a command says of itself, when asked or called in a way that makes no sense. */

import { type CommandIo, terminal } from './terminal.ts'

/** Whether these arguments ask how the command is called. */
export function asksForHelp(args: readonly string[]): boolean {
  return args.some((arg) => arg === '--help' || arg === '-h')
}

/**
 * Handles the arguments of a command that takes none: prints its usage where they ask for it (exit
 * status 0) or where there are any (2). Answers undefined where there are none.
 */
export function refuseArguments(args: readonly string[], usage: string): number | undefined {
  if (asksForHelp(args)) {
    console.log(usage)
    return 0
  }
  if (args.length === 0) return undefined
  console.error(`There is no argument "${args[0]}".\n\n${usage}`)
  return 2
}

/**
 * What the arguments of a command ask for, as `read` has it. Where they ask for help or make no sense
 * (`read` answers undefined, or its parseArgs throws), prints the usage and answers the exit status,
 * 0 or 2.
 */
export function readCall<Call extends object>(
  args: readonly string[],
  usage: string,
  read: (args: string[]) => Call | undefined,
  { out, err }: Pick<CommandIo, 'out' | 'err'> = terminal,
): Call | number {
  if (asksForHelp(args)) {
    out(usage)
    return 0
  }
  const call = readUnlessWrong(() => read([...args]))
  if (call !== undefined) return call
  err(usage)
  return 2
}

function readUnlessWrong<Call>(read: () => Call): Call | undefined {
  try {
    return read()
  } catch (error) {
    if (!String((error as NodeJS.ErrnoException).code).startsWith('ERR_PARSE_ARGS')) throw error
    return undefined
  }
}
