/**
 * `tollgate completion`: a script for a shell that completes commands, flags and values with few choices. It is
 * generated from the commands without a request, so that it responds at once.
 */

import type { Command, Operand, Option, Run } from './command.ts'
import { isOption } from './parse-command.ts'

/** Prints the script for these commands. */
export function completionOf(all: readonly Command[]): Run {
  return async ({ operands: [shell = ''] }, { out }) => {
    out(scriptOf(shell as 'bash' | 'zsh' | 'fish', all))
    return 0
  }
}

function scriptOf(shell: 'bash' | 'zsh' | 'fish', all: readonly Command[]): string {
  if (shell === 'fish') return fishScript(all)
  const bash = bashScript(all)
  return shell === 'bash' ? bash : `autoload -U +X bashcompinit && bashcompinit\n${bash}`
}

/** The words that may follow these words of a command's name. */
function nextWords(words: readonly string[], all: readonly Command[]): readonly string[] {
  const names = all.map(({ name }) => name.split(' '))
  const next = names.filter(
    (name) => name.length > words.length && words.every((word, index) => name[index] === word),
  )
  return [...new Set(next.map((name) => name[words.length] as string))]
}

/** Every beginning of a command's name, the empty one too. */
function beginnings(all: readonly Command[]): readonly string[] {
  const found = all.flatMap(({ name }) => ['', name.split(' ')[0] as string, name])
  return [...new Set(found)]
}

/** zsh runs it too, by bashcompinit. */
function bashScript(all: readonly Command[]): string {
  const cases = beginnings(all).map((name) => {
    const command = all.find((each) => each.name === name)
    const words = name === '' ? [] : name.split(' ')
    const next = [...nextWords(words, all), ...(name === '' ? ['help'] : [])]
    const flags = Object.keys(command?.flags ?? {}).map((flag) => `--${flag}`)
    const operands = command?.operands ?? []
    const given = [...next, ...operands.flatMap(({ choices = [] }) => choices)]
    return [
      `    '${name}')`,
      `      words='${given.join(' ')}' flags='${[...flags, '--help'].join(' ')}' files='${filesOf(operands)}' ;;`,
    ].join('\n')
  })
  const values = all.flatMap(({ name, flags }) =>
    Object.entries(flags).flatMap(([flag, each]) => {
      if (!isOption(each)) return []
      const pattern = `'${name} --${flag}'`
      return [
        `    ${pattern}) words='${wordsFor(each).join(' ')}' flags='' files='${each.at ?? 'none'}' ;;`,
      ]
    }),
  )
  return `# Completion of tollgate for bash, and for zsh by bashcompinit.
_tollgate() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}"
  local name='' word words='' flags='' files='' index
  for ((index = 1; index < COMP_CWORD; index += 1)); do
    word="\${COMP_WORDS[index]}"
    case "\${name:+$name }$word" in
      ${beginnings(all)
        .filter(Boolean)
        .map((name) => `'${name}'`)
        .join('|')}) name="\${name:+$name }$word" ;;
      *) break ;;
    esac
  done
  case "$name" in
${cases.join('\n')}
  esac
  case "$name $previous" in
${values.join('\n')}
  esac
  if [[ $current == -* ]]; then words="$flags"; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $current != -* && $files == file ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi
  if [[ $current != -* && $files == folder ]]; then COMPREPLY+=($(compgen -d -- "$current")); fi
}
complete -o filenames -F _tollgate tollgate`
}

function wordsFor({ choices, suggests = [] }: Option): readonly string[] {
  return choices ?? suggests
}

function filesOf(operands: readonly Operand[]): string {
  return operands.find(({ at }) => at !== undefined)?.at ?? 'none'
}

function fishScript(all: readonly Command[]): string {
  const lines = [
    '# Completion of tollgate for fish.',
    'function __tollgate_words',
    "  string match -v -- '-*' (commandline -opc)[2..-1]",
    'end',
    'function __tollgate_at',
    '  set -l words (__tollgate_words)',
    '  test "$words" = "$argv"',
    'end',
    'function __tollgate_in',
    '  set -l words (__tollgate_words)',
    '  string match -q -- "$argv *" "$words "',
    'end',
    'complete -c tollgate -f',
  ]
  for (const name of beginnings(all)) {
    const words = name === '' ? [] : name.split(' ')
    for (const next of nextWords(words, all)) {
      const about = all.find((each) => each.name === [...words, next].join(' '))?.summary ?? ''
      lines.push(`complete -c tollgate -n '__tollgate_at ${name}' -a ${next} -d ${quoted(about)}`)
    }
  }
  for (const { name, flags, operands = [] } of all) {
    const when = `complete -c tollgate -n '__tollgate_in ${name}'`
    for (const [flag, each] of Object.entries(flags)) {
      const words = isOption(each) ? wordsFor(each) : []
      const offered = words.length > 0 ? ` -a '${words.join(' ')}'` : ''
      const value = isOption(each) ? ` -${each.at === undefined ? 'x' : 'rF'}${offered}` : ''
      lines.push(`${when} -l ${flag}${value} -d ${quoted(each.means)}`)
    }
    for (const { choices, at } of operands) {
      if (choices !== undefined) lines.push(`${when} -a '${choices.join(' ')}'`)
      if (at !== undefined) lines.push(`${when} -F`)
    }
  }
  return lines.join('\n')
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
