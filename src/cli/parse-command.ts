/** Parses a command line. */

import { parseArgs } from 'node:util'
import { nearestName } from '../formats/nearest-name.ts'
import { type CliCall, type Command, type Flag, type Option, WrongCall } from './command.ts'
import { printable } from './output.ts'

/** The request in a command line. */
type Asked =
  | {
      readonly asks: 'run'
      readonly command: Command
      readonly call: CliCall
      readonly old?: string
    }
  /** For help: on a command, on those that begin with these words, or on all. */
  | { readonly asks: 'help'; readonly words: readonly string[] }
  | { readonly asks: 'version' }

/** An invalid call, with the words whose help explains it. */
export class WrongCommand extends WrongCall {
  readonly words: readonly string[]

  constructor(message: string, words: readonly string[], cause?: unknown) {
    super(message, { cause })
    this.words = words
  }
}

/** The commands, and earlier names of some. */
export interface Commands {
  readonly all: readonly Command[]
  readonly renamed: Readonly<Record<string, string>>
}

/** Parses these words. Throws a WrongCommand that explains the fault, and suggests the nearest name. */
export function parseCommand(argv: readonly string[], commands: Commands): Asked {
  const [first = ''] = argv
  if (['--version', '-V', 'version'].includes(first)) return { asks: 'version' }
  if (first === 'help') return { asks: 'help', words: knownWords(argv.slice(1), commands) }
  if (['--help', '-h'].includes(first)) return { asks: 'help', words: [] }
  if (first.startsWith('-')) throw new WrongCommand('Name the command before its flags.', [])
  const { command, words, old } = findCommand(argv, commands)
  const args = argv.slice(words.length)
  if (asksForHelp(args)) return { asks: 'help', words: command?.name.split(' ') ?? words }
  if (command === undefined) throw unknownCommand(argv, words, commands)
  const call = readCall(command, args, () => unknownCommand(argv, words, commands))
  return { asks: 'run', command, call, ...(old !== undefined && { old }) }
}

/** Whether these arguments ask for help. */
export function asksForHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  return args.slice(0, end < 0 ? undefined : end).some((arg) => arg === '--help' || arg === '-h')
}

interface Found {
  readonly command: Command | undefined
  /** The words that it takes from the command line. */
  readonly words: readonly string[]
  readonly old?: string
}

/** The command with the longest match, else the group that the words begin; by an old name too. */
function findCommand(argv: readonly string[], { all, renamed }: Commands): Found {
  for (const count of [2, 1]) {
    const words = argv.slice(0, count)
    const name = words.join(' ')
    const now = Object.hasOwn(renamed, name) ? renamed[name] : undefined
    const command = all.find((each) => each.name === (now ?? name))
    if (command !== undefined && words.length === count) {
      return { command, words, ...(now !== undefined && { old: name }) }
    }
  }
  const [first = ''] = argv
  const isGroup = all.some(({ name }) => name.startsWith(`${first} `))
  return { command: undefined, words: isGroup ? [first] : [] }
}

/** The words of `help`, if there is such a command or group. */
function knownWords(words: readonly string[], commands: Commands): readonly string[] {
  if (words.length === 0) return []
  const found = findCommand(words, commands)
  if (found.command !== undefined) return found.command.name.split(' ')
  if (found.words.length === words.length) return found.words
  throw unknownCommand(words, found.words, commands)
}

function unknownCommand(argv: readonly string[], group: readonly string[], { all }: Commands) {
  const [raw = ''] = argv.slice(group.length)
  const inGroup = group.length > 0 ? subcommandNames(group, all).map(lastWord) : undefined
  if (inGroup !== undefined && (raw === '' || raw.startsWith('-'))) {
    return new WrongCommand(`${group.join(' ')} needs one of ${inGroup.join(', ')}.`, group)
  }
  const near = nearestName(raw, inGroup ?? new Set(all.map(firstWord)))
  const [shown, meant] = [raw, near ?? ''].map((word) => [...group, word].join(' '))
  return new WrongCommand(
    `There is no command ${quoted(shown as string)}${near ? `; did you mean ${meant}?` : '.'}`,
    group,
  )
}

function firstWord({ name }: Command): string {
  return name.split(' ')[0] as string
}

function lastWord(name: string): string {
  return name.split(' ').at(-1) as string
}

/** The names of the subcommands of these words. */
export function subcommandNames(
  words: readonly string[],
  all: readonly Command[],
): readonly string[] {
  const start = `${words.join(' ')} `
  return all.map(({ name }) => name).filter((name) => name.startsWith(start))
}

function readCall(command: Command, args: readonly string[], unknown: () => WrongCommand) {
  const words = command.name.split(' ')
  const wrong = (message: string) => new WrongCommand(message, words)
  const names = Object.keys(command.flags)
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(names.map((name) => [name, typeOf(command.flags[name] as Flag)])),
    allowPositionals: true,
    strict: false,
    tokens: true,
  })
  const flags: Record<string, boolean | string | readonly string[]> = {}
  for (const name of names) if (command.flags[name]?.takes === undefined) flags[name] = false
  const operands: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional') operands.push(token.value)
    if (token.kind !== 'option') continue
    const flag = Object.hasOwn(command.flags, token.name) ? command.flags[token.name] : undefined
    if (flag === undefined) throw wrong(unknownFlag(token.rawName, command))
    if (flag.takes === undefined) {
      if (token.value !== undefined) throw wrong(`--${token.name} takes no value.`)
      flags[token.name] = true
      continue
    }
    const { value } = token
    if (value === undefined || (!token.inlineValue && /^--?[a-z]/i.test(value))) {
      const next = value === undefined ? '' : `; ${quoted(value)} is another flag`
      throw wrong(`--${token.name} needs a value, ${flag.takes}${next}.`)
    }
    // Without the flag, some calls affect oneself or all.
    if (value.trim() === '' && flag.mayBeEmpty !== true) {
      throw wrong(`--${token.name} needs a value, ${flag.takes}, and is empty.`)
    }
    checkChoice(`--${token.name}`, value, flag.choices, flag.many === true, wrong)
    const before = flags[token.name] as readonly string[] | undefined
    flags[token.name] = flag.many ? [...(before ?? []), value] : value
  }
  if (operands.length > 0 && command.operands === undefined && words.length === 1) {
    // A word after a command of one word, such as `usage` or `limits`, was meant as part of a command's name.
    const name = unknown()
    throw name.message.includes('did you mean') ? name : wrong(tooMany(operands[0] as string))
  }
  checkOperands(command, operands, wrong)
  return { operands, flags: flags as CliCall['flags'] } satisfies CliCall
}

function typeOf(flag: Flag) {
  return { type: flag.takes === undefined ? ('boolean' as const) : ('string' as const) }
}

function unknownFlag(raw: string, { name, flags }: Command): string {
  const near = nearestName(raw.replace(/^-+/, ''), [...Object.keys(flags), 'help'])
  const suggestion = near === undefined ? '.' : `; did you mean --${near}?`
  return `There is no flag ${quoted(raw)} of ${name}${suggestion}`
}

function checkOperands(
  { operands: known = [] }: Command,
  given: readonly string[],
  wrong: (message: string) => WrongCommand,
): void {
  const missing = known.find(({ optional }, index) => !optional && given[index] === undefined)
  if (missing !== undefined) throw wrong(`Give the <${missing.name}>.`)
  const isOpen = known.at(-1)?.many === true
  if (!isOpen && given.length > known.length) throw wrong(tooMany(given[known.length] as string))
  for (const [index, value] of given.entries()) {
    const { name = '', choices } = known[Math.min(index, known.length - 1)] ?? {}
    if (value.trim() === '') throw wrong(`<${name}> is empty.`)
    checkChoice(`<${name}>`, value, choices, false, wrong)
  }
}

function tooMany(word: string): string {
  return `There is no place for ${quoted(word)}; put a value with spaces in quotes.`
}

/** One of the choices; for a flag that may be repeated, also several separated by commas. */
function checkChoice(
  name: string,
  value: string,
  choices: readonly string[] | undefined,
  isList: boolean,
  wrong: (message: string) => WrongCommand,
): void {
  if (choices === undefined) return
  const bad = (isList ? value.split(',') : [value]).find((each) => !choices.includes(each))
  if (bad === undefined) return
  const near = nearestName(bad, choices)
  const mend = near ? `did you mean ${near}?` : `it is one of ${choices.join(', ')}.`
  throw wrong(`${name} cannot be ${quoted(bad)}; ${mend}`)
}

function quoted(text: string): string {
  return `"${printable(text.slice(0, 100))}"`
}

/** Whether the flag has a value. */
export function isOption(flag: Flag): flag is Option {
  return flag.takes !== undefined
}
