/** Help as text, for a terminal and for docs/commands.md. */

import type { Command, Flags, Operand } from './command.ts'
import { connectionFlags } from './commands/flags.ts'
import { subcommandNames } from './parse-command.ts'

/** The list of all commands. */
export function allCommandsHelp(all: readonly Command[]): string {
  return [
    'Usage: tollgate <command>',
    columns(all.map(({ name, summary }) => [name, summary])),
    'tollgate help <command>, or <command> --help, describes a command; tollgate --version prints the version.\n' +
      'tollgate completion bash|zsh|fish prints a completion script for a shell.\n' +
      'Exit status: 0 done, 1 refused or failed, 2 invalid arguments, 3 the gateway does not respond.\n' +
      'Settings come from the environment; docs/settings.md lists them.',
  ].join('\n\n')
}

/** Help on the command with these words and on its subcommands; else on all. */
export async function commandHelp(
  words: readonly string[],
  all: readonly Command[],
): Promise<string> {
  const own = all.find(({ name }) => name === words.join(' '))
  const names = subcommandNames(words, all)
  if (own === undefined && names.length === 0) return allCommandsHelp(all)
  const others = all.filter(({ name }) => names.includes(name))
  return [
    own === undefined ? `Usage: tollgate ${words.join(' ')} <command>` : helpOnOne(own),
    others.length === 0
      ? ''
      : `${own ? 'There are also:\n\n' : ''}${columns(others.map(({ name, summary }) => [name, summary]))}`,
    (await own?.details?.()) ?? '',
  ]
    .filter(Boolean)
    .join('\n\n')
}

function helpOnOne({ name, summary, about, operands = [], flags, exit }: Command): string {
  const calls = Object.hasOwn(flags, 'url')
  const isOwn = (flag: string) => !calls || !Object.hasOwn(connectionFlags, flag)
  const own = Object.fromEntries(Object.entries(flags).filter(([flag]) => isOwn(flag)))
  const rest = Object.keys(flags).length > 0 ? ' [flags]' : ''
  return [
    `Usage: tollgate ${[name, ...operands.map(showOperand)].join(' ')}${rest}`,
    `${summary}.`,
    wrapped(about ?? ''),
    rowsOf(own),
    calls ? `${rowsOf(connectionFlags)}\n\n${wrapped(whereFrom)}` : '',
    exit === undefined ? '' : wrapped(`Exit status: ${exit}`),
  ]
    .filter(Boolean)
    .join('\n\n')
}

const whereFrom =
  'The gateway is --url, else TOLLGATE_URL, else the one saved by tollgate login, else http://127.0.0.1:8000. The credential is ' +
  'TOLLGATE_TOKEN, else in the file TOLLGATE_TOKEN_FILE, else the one saved by tollgate login for this gateway.'

export function showOperand({ name, optional, many }: Operand): string {
  const shown = `<${name}>${many ? '...' : ''}`
  return optional ? `[${shown}]` : shown
}

/** The rows of a table of flags. */
export function flagRows(flags: Flags): readonly (readonly [string, string])[] {
  return Object.entries(flags).map(([name, flag]) => {
    const many = flag.takes !== undefined && flag.many ? '; repeatable' : ''
    const choices = flag.takes !== undefined && flag.choices ? `: ${flag.choices.join(', ')}` : ''
    return [
      flag.takes === undefined ? `--${name}` : `--${name} ${flag.takes}`,
      `${flag.means}${choices}${many}`,
    ]
  })
}

function rowsOf(flags: Flags): string {
  return columns(flagRows(flags))
}

const width = 110

/** Two columns, the second one wrapped. */
function columns(rows: readonly (readonly [string, string])[]): string {
  const first = Math.min(34, Math.max(0, ...rows.map(([name]) => name.length)))
  return rows
    .map(([name, text]) => {
      const [line = '', ...more] = wrap(text, width - first - 4)
      const indent = `\n${' '.repeat(first + 4)}`
      const start = name.length > first ? `  ${name}${indent}` : `  ${name.padEnd(first)}  `
      return start + [line, ...more].join(indent)
    })
    .join('\n')
}

function wrapped(text: string): string {
  return text
    .split('\n')
    .flatMap((line) => wrap(line, width))
    .join('\n')
}

function wrap(text: string, most: number): readonly string[] {
  const lines: string[] = ['']
  for (const word of text.split(' ')) {
    const last = lines.at(-1) as string
    if (last !== '' && last.length + 1 + word.length > most) lines.push(word)
    else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`
  }
  return lines
}
