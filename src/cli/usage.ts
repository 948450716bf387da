/** The usage of a command, printed for --help or invalid arguments. */

import { type CommandIo, terminal } from './terminal.ts'

/** Whether these arguments ask for help. */
export function asksForHelp(args: readonly string[]): boolean {
  return args.some((arg) => arg === '--help' || arg === '-h')
}

/**
 * For commands without arguments: prints the usage if they ask for help (exit status 0) or if there
 * are any (2). Returns undefined if there are none.
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
 * Parses the arguments of a command with `read`. If they ask for help or are invalid (`read`
 * returns undefined, or its parseArgs throws), prints the usage and returns the exit status, 0 or
 * 2.
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
