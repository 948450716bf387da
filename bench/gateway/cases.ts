/** The requests that are measured: two ways to name the model, two kinds of response, two sizes. */

/** One row of the table. */
export interface Case {
  /** Its name for `--rows`: `path-json-small`. */
  readonly name: string
  /** Whether the path names the model, or only the body. */
  readonly route: 'path' | 'body'
  readonly answer: 'json' | 'stream'
  /** Size of the body. */
  readonly bytes: number
}

/** Other inputs of the requests. */
export interface Asking {
  /** `Host` of the requests, and the prefix of each path. */
  readonly host: string
  readonly base?: string
  /** The model's path, `/llm/bench`, and its name in each body. */
  readonly modelPath: string
  readonly model: string
  /** Used in turn. */
  readonly keys: readonly string[]
}

const small = 400
const large = 20_480
const messageBytes = 1_000
const hugeBytes = 2 ** 20

export const cases: readonly Case[] = (['path', 'body'] as const).flatMap((route) =>
  (['json', 'stream'] as const).flatMap((answer) =>
    (['small', 'large'] as const).map((size) => ({
      name: `${route}-${answer}-${size}`,
      route,
      answer,
      bytes: size === 'small' ? small : large,
    })),
  ),
)

/** Sent one at a time: how long a body of 30 MiB occupies a thread of Envoy. */
export const hugeCase: Case = {
  name: 'path-json-huge',
  route: 'path',
  answer: 'json',
  bytes: 30 * 2 ** 20,
}

/** All rows, in the order of the table. */
export const allCases: readonly Case[] = [...cases, hugeCase]

/** The bytes of the requests of a case, one per key; only one for the huge body. */
export function buildRequests(of: Case, asking: Asking): readonly Buffer[] {
  const body = buildBody(of, asking.model)
  const path = `${asking.base ?? ''}${of.route === 'path' ? asking.modelPath : ''}`
  return asking.keys
    .slice(0, body.length > hugeBytes ? 1 : undefined)
    .map((key) =>
      Buffer.concat([
        Buffer.from(
          `POST ${path}/v1/chat/completions HTTP/1.1\r\nhost: ${asking.host}\r\n` +
            `authorization: Bearer ${key}\r\ncontent-type: application/json\r\n` +
            `user-agent: tollgate-bench\r\naccept: */*\r\ncontent-length: ${body.length}\r\n\r\n`,
          'latin1',
        ),
        body,
      ]),
    )
}

/**
 * A chat call of exactly this many bytes: English text in messages of a kilobyte, as clients send
 * it.
 */
export function buildBody(
  { answer, bytes }: Pick<Case, 'answer' | 'bytes'>,
  model: string,
): Buffer {
  const empty = JSON.stringify({
    model,
    ...(answer === 'stream' && { stream: true }),
    messages: [],
  })
  const messages: string[] = []
  let left = bytes - empty.length
  const add = (message: string): void => {
    left -= message.length + (messages.length > 0 ? 1 : 0)
    messages.push(message)
  }
  const long = [0, 1].map((index) => messageOf(index, text(messageBytes)))
  while (left > 2 * messageBytes) add(long[messages.length % 2] as string)
  const least = messageOf(messages.length, '').length + 1
  if (left < least)
    throw new RangeError(`A chat call of ${bytes} bytes has no place for its model.`)
  // Quotes and line breaks take two bytes each: the text is cut to fit, then padded.
  const most = left - least
  let last = text(most)
  while (JSON.stringify(last).length - 2 > most) last = last.slice(0, -1)
  const padding = left - (messages.length > 0 ? 1 : 0) - messageOf(messages.length, last).length
  add(messageOf(messages.length, last + ' '.repeat(padding)))
  return Buffer.from(empty.replace(/\[\]\}$/, () => `[${messages.join(',')}]}`))
}

function messageOf(index: number, content: string): string {
  return JSON.stringify({ role: index % 2 === 0 ? 'user' : 'assistant', content })
}

const sentence =
  'The miller said: "Carry the water past the old stone mill at dawn, and bring news."\n'

function text(length: number): string {
  return sentence.repeat(Math.ceil(length / sentence.length)).slice(0, length)
}
