/** Responses of a model server, valid and unusual, and what may be counted for each. */
import { createDice, type Dice } from './dice.ts'

export interface Answer {
  /** Written one by one, unchanged. */
  readonly parts: readonly Buffer[]
  /** The allowed token counts: one if counting is promised, otherwise also 0 and an earlier figure. */
  readonly allowed: readonly number[]
  readonly isStream: boolean
  /** How often the text of the model is in it; each must reach the client. */
  readonly texts: number
  /** The choices that led to it. */
  readonly traits: readonly string[]
}

/** The tokens of a plain answer, more than any other has. */
export const plainTokens = 10_000

export function plainAnswer(): Answer {
  const body = JSON.stringify({ choices: [], usage: { total_tokens: plainTokens } })
  const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n`
  const parts = [Buffer.from(`${head}connection: close\r\n\r\n${body}`)]
  return { parts, allowed: [plainTokens], isStream: false, texts: 0, traits: ['plain'] }
}

/** A trait: its name, and whether a response with it must still be counted. */
type Trait<T> = readonly [name: string, isPromised: boolean, value: T]

const sseLabels: readonly Trait<string | undefined>[] = [
  ['sse', true, 'text/event-stream'],
  ['sse', true, 'text/event-stream'],
  ['sse-charset', true, 'text/event-stream; charset=utf-8'],
  ['sse-upper', true, 'Text/Event-Stream'],
  ['no-label', true, undefined],
  ['text-plain', true, 'text/plain; charset=utf-8'],
  ['octets', false, 'application/octet-stream'],
  ['labelled-json', false, 'application/json'],
]

const jsonLabels: readonly Trait<string | undefined>[] = [
  ['json', true, 'application/json'],
  ['json', true, 'application/json'],
  ['json-charset', true, 'application/json; charset=utf-8'],
  ['json-upper', true, 'Application/JSON'],
  ['no-label', true, undefined],
  ['text-plain', true, 'text/plain'],
  ['text-html', true, 'text/html; charset=utf-8'],
  ['octets', false, 'application/octet-stream'],
  ['labelled-sse', false, 'text/event-stream'],
]

const lineLabels: readonly Trait<string | undefined>[] = [
  ['ndjson', true, 'application/x-ndjson'],
  ['ndjson-charset', true, 'application/x-ndjson; charset=utf-8'],
  ['jsonl', false, 'application/jsonl'],
]

const figures: readonly Trait<(tokens: number) => string>[] = [
  ...Array<Trait<(tokens: number) => string>>(6).fill(['whole', true, String]),
  ['spaced', true, (tokens) => ` ${tokens} `],
  ['as-text', false, (tokens) => `"${tokens}"`],
  ['with-point', false, (tokens) => `${tokens}.0`],
  ['with-exponent', false, (tokens) => `${tokens}e0`],
  ['null', false, () => 'null'],
  ['list', false, (tokens) => `[${tokens}]`],
]

const extras: readonly Trait<string>[] = [
  ...Array<Trait<string>>(5).fill(['bare', true, '']),
  ['quoted', true, '"x":"\\"usage\\":{\\"total_tokens\\":77777}",'],
  ['quoted-event', true, '"x":"\\n\\ndata: {\\"usage\\":{\\"total_tokens\\":77777}}\\n\\n",'],
  ['inner', true, '"x":{"usage":{"total_tokens":77777}},'],
  ['inner-list', true, '"choices":[{"index":0},{"usage":{"total_tokens":77777}}],'],
  ['nan', true, '"logprob":NaN,'],
  ['infinity', true, '"logprob":-Infinity,'],
  ['surrogate', true, '"x":"\\ud800",'],
  ['big', true, '"x":123456789012345678901234567890,'],
  ['long', true, `"x":"${'lorem '.repeat(20_000)}",`],
  ['deep', true, `"x":${'['.repeat(90)}${']'.repeat(90)},`],
  ['braces', true, '"x":"}]}{[\\\\",'],
]

/** The member with the usage, which servers have in several places and forms. */
const places: readonly Trait<(usage: string, tokens: number) => string>[] = [
  ...Array<Trait<(usage: string, tokens: number) => string>>(6).fill([
    'at the top',
    true,
    (usage) => `"usage":${usage}`,
  ]),
  ['in x_groq', true, (usage) => `"x_groq":{"id":"r","usage":${usage}}`],
  [
    'parts',
    true,
    (_, tokens) =>
      `"usage":{"prompt_tokens":${tokens - 1},"completion_tokens":1,"total_tokens":null}`,
  ],
  [
    'input and output',
    true,
    (_, tokens) => `"usage":{"output_tokens":${tokens},"input_tokens":0,"total_tokens":0}`,
  ],
  ['beside timings', true, (usage) => `"choices":[],"timings":{"n":1},"usage":${usage}`],
]

/** More than the gateway buffers of an event. */
const huge: readonly Trait<string>[] = [['huge', false, `"x":"${'lorem '.repeat(2_000_000)}",`]]

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
  const form = dice.pick(['events', 'events', 'events', 'object', 'object', 'lines'] as const)
  const isStream = form !== 'object'
  const label = take({ events: sseLabels, object: jsonLabels, lines: lineLabels }[form])
  const figure = take(figures)(tokens)
  // Both parts of the second add up where the total is not usable.
  const parts = 3
  const usage = dice.pick([
    `{"total_tokens":${figure}}`,
    `{"prompt_tokens":1,"completion_tokens":2,"total_tokens":${figure},"x":{"total_tokens":3}}`,
    `{ "total_tokens" :${figure} , "prompt_tokens":null}`,
  ])
  const extra = dice.chance(1) ? take(huge) : take(extras)
  const object = `{${extra}${take(places)(usage, tokens)}}`
  const body =
    form === 'object'
      ? object
      : form === 'lines'
        ? lines(object, dice, take)
        : events(object, dice, take)
  const { head, parts: pieces } = frame(Buffer.from(body), dice, take)
  const labelLine = label === undefined ? '' : `content-type: ${label}\r\n`
  const start = Buffer.from(`HTTP/1.1 200 OK\r\n${labelLine}${head}connection: close\r\n\r\n`)
  const allowed = isPromised ? [tokens] : [tokens, parts, earlier, 0]
  const texts = body.split(modelText).length - 1
  return { parts: [start, ...pieces], allowed, isStream, texts, traits }
}

/** The text of each event. */
export const modelText = '"content":"la"'

type Take = <T>(among: readonly Trait<T>[]) => T

function events(last: string, dice: Dice, take: Take): string {
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
  if (dice.chance(20)) many.push(event(`{"choices":[],"usage":{"total_tokens":${earlier}}}`))
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
