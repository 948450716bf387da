/** The requests that are measured: two ways to name the model, two kinds of answer, two sizes. */

/** One row of the table. */
export interface Case {
  /** As `--rows` names it: `path-json-small`. */
  readonly name: string
  /** Whether the path names the model, or the body alone. */
  readonly route: 'path' | 'body'
  readonly answer: 'json' | 'stream'
  /** Of the body. */
  readonly bytes: number
}

/** What the requests are made of besides. */
export interface Asking {
  /** `Host` of the requests. */
  readonly host: string
  /** The path of the path route, `/llm/bench`; the name of the model in each body. */
  readonly modelPath: string
  readonly model: string
  /** Each is used in turn. */
  readonly keys: readonly string[]
}

const SMALL = 400
const LARGE = 20_480
const MESSAGE = 1_000

export const cases: readonly Case[] = (['path', 'body'] as const).flatMap((route) =>
  (['json', 'stream'] as const).flatMap((answer) =>
    (['small', 'large'] as const).map((size) => ({
      name: `${route}-${answer}-${size}`,
      route,
      answer,
      bytes: size === 'small' ? SMALL : LARGE,
    })),
  ),
)

/** The bytes of the requests of a case, one for each key. */
export function buildRequests(of: Case, asking: Asking): readonly Buffer[] {
  const body = buildBody(of, asking.model)
  const path = of.route === 'path' ? asking.modelPath : ''
  return asking.keys.map((key) =>
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

/** A chat call of exactly so many bytes: English text in messages of a kilobyte, as clients send it. */
export function buildBody(
  { answer, bytes }: Pick<Case, 'answer' | 'bytes'>,
  model: string,
): Buffer {
  const roles = ['user', 'assistant']
  const messages: { role: string; content: string }[] = []
  const render = () =>
    JSON.stringify({ model, ...(answer === 'stream' && { stream: true }), messages })
  messages.push({ role: 'user', content: '' })
  for (let left = bytes - render().length; left > 2 * MESSAGE; left = bytes - render().length) {
    messages.push({ role: roles[messages.length % 2] as string, content: text(MESSAGE) })
  }
  const last = messages[0] as { content: string }
  const left = bytes - Buffer.byteLength(render())
  if (left < 0) throw new RangeError(`A chat call of ${bytes} bytes has no place for its model.`)
  last.content = 'x'.repeat(left)
  const sentences = text(left)
  // What is escaped takes two bytes, so the text is cut to what remains.
  for (let length = left; length >= 0; length -= 1) {
    last.content = sentences.slice(0, length)
    const size = Buffer.byteLength(render())
    if (size <= bytes) {
      last.content += ' '.repeat(bytes - size)
      break
    }
  }
  return Buffer.from(render())
}

const sentence =
  'The miller said: "Carry the water past the old stone mill at dawn, and bring news."\n'

function text(length: number): string {
  return sentence.repeat(Math.ceil(length / sentence.length)).slice(0, length)
}
