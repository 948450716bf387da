/** Rewrites messages of the API for a command: names of fields become names of flags and operands. */

import type { Command } from './command.ts'
import { isOption } from './parse-command.ts'

/** What may follow a field's name that is also a word, at the start of a message. */
const follows = /^(?=:|[.[]\d| (?:must|may|is|has|names|stands|cannot|and)\b)/

/** Rewrites the message for users of this command. */
export function rewordApiMessage(command: Command, message: string): string {
  let said = message
  for (const [field, word] of wordsOf(command)) {
    // Names without these characters are English words too, and are fields only at the beginning of a message.
    if (/[A-Z_.=]/.test(field)) said = replaceAll(said, field, word)
    else if (said.startsWith(field) && follows.test(said.slice(field.length))) {
      said = word + said.slice(field.length)
    }
  }
  for (const [operation, name] of operations) said = replaceAll(said, operation, `tollgate ${name}`)
  return said.replace(oneOfMany, showOneOfMany)
}

/** Endpoints that messages recommend, and the command for each. */
const operations = [
  ['GET /v1/limits', 'limits'],
  ['GET /v1/admin/limits', 'limits --all'],
  ['GET /v1/admin/increases', 'increases'],
  ['POST /v1/admin/increases', 'increases grant'],
  ['GET /v1/limit-requests', 'limit-requests'],
  ['POST /v1/api-keys/search', 'key list'],
] as const

const oneOfMany = /(--[\w-]+)[.[](\d+)\]?(?:\.([\w.[\]]+))?/g
const ordinals = ['first', 'second', 'third', 'fourth', 'fifth']

/** `window in the first --limit`, for a flag that may be given several times. */
function showOneOfMany(_: string, flag: string, index: string, part?: string): string {
  const ordinal = ordinals[Number(index)] ?? `${Number(index) + 1}th`
  return `${part === undefined ? '' : `${part} in `}the ${ordinal} ${flag}`
}

/** The longest first, because one may begin as another. */
function wordsOf({ flags, operands = [] }: Command): readonly (readonly [string, string])[] {
  const ofFlags = Object.entries(flags).flatMap(([name, flag]) =>
    isOption(flag) || flag.field ? [[flag.field ?? name, `--${name}`] as const] : [],
  )
  const ofOperands = operands.map(({ name }) => [name, `<${name}>`] as const)
  return [...ofFlags, ...ofOperands].sort(([a], [b]) => b.length - a.length)
}

function replaceAll(text: string, field: string, word: string): string {
  const whole = new RegExp(`(?<![\\w.-])${field.replaceAll('.', '\\.')}(?![\\w-])`, 'g')
  return text.replace(whole, word)
}
