/** Responses of a model server, valid and unusual, and what may be counted for each. */
import {
  decoy,
  extras,
  figures,
  huge,
  jsonLabels,
  lineLabels,
  places,
  sseLabels,
  type Take,
  type Trait,
  wholes,
} from './answer-traits.ts'
import { createDice, type Dice } from './dice.ts'
import { messageBody } from './message-answer.ts'

export interface Answer {
  /** Written one by one, unchanged. */
  readonly parts: readonly Buffer[]
  /** The allowed token counts: one if counting is promised, otherwise also 0 and an earlier figure. */
  readonly allowed: readonly number[]
  readonly isStream: boolean
  /** The operation that it answers. Servers answer each in the form of either. */
  readonly operation: Operation
  /** How often the text of the model is in it; each must reach the client. */
  readonly texts: number
  /** The choices that led to it. */
  readonly traits: readonly string[]
}

export type Operation = 'chat/completions' | 'messages'

/** The tokens of a plain answer, more than any other has. */
export const plainTokens = 10_000

export function plainAnswer(): Answer {
  const body = JSON.stringify({ choices: [], usage: { total_tokens: plainTokens } })
  const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n`
  const parts = [Buffer.from(`${head}connection: close\r\n\r\n${body}`)]
  const operation = 'chat/completions'
  return { parts, allowed: [plainTokens], isStream: false, operation, texts: 0, traits: ['plain'] }
}

/** What a stream may report before its end; only the last figure counts. */
const earlier = 1

/** Generates the answer with this number. */
export function drawAnswer(seed: number): Answer {
  const dice = createDice(seed)
  const traits: string[] = []
  let isPromised = true
  const take = <T>(among: readonly Trait<T>[]): T => {
    const [name, promised, value] = dice.pick(among)
    traits.push(name)
    isPromised &&= promised
    return value
  }
  const tokens = 1 + dice.below(5_000)
  const operation = dice.pick(['chat/completions', 'chat/completions', 'messages'] as const)
  traits.push(operation)
  const form = dice.pick(['events', 'events', 'events', 'object', 'object', 'lines'] as const)
  const isStream = form !== 'object'
  const label = take({ events: sseLabels, object: jsonLabels, lines: lineLabels }[form])
  const isMessage = form !== 'lines' && dice.chance(operation === 'messages' ? 60 : 20)
  if (isMessage) traits.push('message')
  const figure = take(isMessage ? wholes : figures)(tokens)
  // Both parts of the second add up where the total is not usable.
  const parts = 3
  const withParts = `{"prompt_tokens":1,"completion_tokens":2,"total_tokens":${figure},"x":{"total_tokens":3}}`
  // A total alone is no usage of a message.
  const usage =
    operation === 'messages'
      ? withParts
      : dice.pick([
          `{"total_tokens":${figure}}`,
          withParts,
          `{ "total_tokens" :${figure} , "prompt_tokens":null}`,
        ])
  const body = isMessage
    ? messageBody(tokens, isStream, dice, take)
    : openAiBody(form, usage, tokens, dice, take)
  const { head, parts: pieces } = frame(Buffer.from(body), dice, take)
  const labelLine = label === undefined ? '' : `content-type: ${label}\r\n`
  const start = Buffer.from(`HTTP/1.1 200 OK\r\n${labelLine}${head}connection: close\r\n\r\n`)
  const allowed = isPromised ? [tokens] : [tokens, parts, earlier, decoy, 0]
  const texts = body.split(modelText).length - 1
  return { parts: [start, ...pieces], allowed, isStream, operation, texts, traits }
}

const hasNoChoices = ([, , text]: Trait<string>) => !text.includes('"choices"')

type Form = 'events' | 'object' | 'lines'

function openAiBody(form: Form, usage: string, tokens: number, dice: Dice, take: Take): string {
  const place = take(places)
  const member = place(usage, tokens, dice)
  // Which of two lists of choices counts would depend on the reader.
  const others = member.includes('"choices":[{') ? extras.filter(hasNoChoices) : extras
  const object = `{${dice.chance(1) ? take(huge) : take(others)}${member}}`
  if (form === 'object') return object
  if (form === 'lines') return lines(object, dice, take)
  // A server reports in one place.
  const first = `{${place(`{"total_tokens":${earlier}}`, earlier, dice)}}`
  return events(first, object, dice, take)
}

/** The text of each event. */
export const modelText = '"content":"la"'

function events(first: string, last: string, dice: Dice, take: Take): string {
  const ending = take([
    ['lf', true, '\n'],
    ['lf', true, '\n'],
    ['crlf', true, '\r\n'],
    ['cr', false, '\r'],
  ] as const)
  const field = take([
    ['space', true, 'data: '],
    ['no-space', true, 'data:'],
  ] as const)
  const before = take([
    ['direct', true, ''],
    ['mark', true, '\ufeff'],
    ['comment', true, `: ping${ending}${ending}`],
    ['named', true, `event: x${ending}id: 7${ending}retry: 5${ending}`],
    ['blank', true, ending],
  ] as const)
  const between = take([
    ['empty line', true, ending],
    ['empty line', true, ending],
    ['one line end', true, ''],
  ] as const)
  const event = (data: string) => field + data + ending + between
  const delta = `{"choices":[{"index":0,"delta":{${modelText}}}],"usage":null}`
  const many = Array<string>(dice.below(4)).fill(event(delta))
  if (dice.chance(20)) many.push(event(first))
  const end = take([
    ['done', true, event(last) + event('[DONE]')],
    ['done', true, event(last) + event('[DONE]')],
    ['no-done', true, event(last)],
    ['unterminated', true, field + last + ending],
    ['no-line-end', true, field + last],
    ['delta-after', true, event(last) + event(delta) + event('[DONE]')],
    ['two-lines', true, event(last.replace(/("usage":)/, `$1${ending}${field}`)) + event('[DONE]')],
    ['named-end', true, `event: usage${ending}${event(last)}`],
    ['comment-end', true, `${event(last)}: bye${ending}${ending}`],
  ] as const)
  return before + many.join('') + end
}

/** One JSON object per line. */
function lines(last: string, dice: Dice, take: Take): string {
  const delta = `{"message":{${modelText}},"done":false}`
  const ending = take([
    ['lf', true, '\n'],
    ['crlf', true, '\r\n'],
  ] as const)
  const end = take([
    ['ended', true, last + ending],
    ['no-line-end', true, last],
    ['delta-after', true, last + ending + delta + ending],
  ] as const)
  return (delta + ending).repeat(dice.below(4)) + end
}

function frame(body: Buffer, dice: Dice, take: Take): { head: string; parts: Buffer[] } {
  const pieces = cut(body, dice)
  const way = take([
    ['length', true, 'length'],
    ['chunked', true, 'chunked'],
    ['chunked', true, 'chunked'],
    ['trailers', true, 'trailers'],
    ['close', true, 'close'],
  ] as const)
  if (way === 'length') return { head: `content-length: ${body.length}\r\n`, parts: pieces }
  if (way === 'close') return { head: '', parts: pieces }
  const chunks = pieces.map((piece) =>
    Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]),
  )
  const end = way === 'trailers' ? '0\r\nx-checksum: 1\r\n\r\n' : '0\r\n\r\n'
  return { head: 'transfer-encoding: chunked\r\n', parts: [...chunks, Buffer.from(end)] }
}

/** Returns the body in one part, or split at random places, most of them near the usage. */
function cut(body: Buffer, dice: Dice): Buffer[] {
  if (dice.chance(40)) return [body]
  const near = Math.max(0, body.lastIndexOf('"usage"') - 10)
  const places = Array.from({ length: 1 + dice.below(8) }, () =>
    dice.chance(70) ? near + dice.below(60) : dice.below(body.length),
  )
  const sorted = [...new Set([0, ...places.filter((at) => at < body.length)])].sort((a, b) => a - b)
  return sorted.map((at, i) => body.subarray(at, sorted[i + 1] ?? body.length))
}
