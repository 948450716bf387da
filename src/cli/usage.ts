/** What a command says of itself, when asked or called in a way that makes no sense. */

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
