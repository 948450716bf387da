/** What responses of model servers may have, in the form of OpenAI's API. */
import type { Dice } from './dice.ts'
import { iterations } from './message-answer.ts'

/** A trait: its name, and whether a response with it must still be counted. */
export type Trait<T> = readonly [name: string, isPromised: boolean, value: T]

/** Draws one, and notes it. */
export type Take = <T>(among: readonly Trait<T>[]) => T

export const sseLabels: readonly Trait<string | undefined>[] = [
  ['sse', true, 'text/event-stream'],
  ['sse', true, 'text/event-stream'],
  ['sse-charset', true, 'text/event-stream; charset=utf-8'],
  ['sse-upper', true, 'Text/Event-Stream'],
  ['no-label', true, undefined],
  ['text-plain', true, 'text/plain; charset=utf-8'],
  ['octets', false, 'application/octet-stream'],
  ['labelled-json', false, 'application/json'],
]

export const jsonLabels: readonly Trait<string | undefined>[] = [
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

export const lineLabels: readonly Trait<string | undefined>[] = [
  ['ndjson', true, 'application/x-ndjson'],
  ['ndjson-charset', true, 'application/x-ndjson; charset=utf-8'],
  ['jsonl', false, 'application/jsonl'],
]

export const figures: readonly Trait<(tokens: number) => string>[] = [
  ...Array<Trait<(tokens: number) => string>>(6).fill(['whole', true, String]),
  ['spaced', true, (tokens) => ` ${tokens} `],
  ['as-text', false, (tokens) => `"${tokens}"`],
  ['with-point', false, (tokens) => `${tokens}.0`],
  ['with-exponent', false, (tokens) => `${tokens}e0`],
  ['null', false, () => 'null'],
  ['list', false, (tokens) => `[${tokens}]`],
]

/** Those that are as they should be. */
export const wholes = figures.filter(([name]) => name === 'whole')

export const extras: readonly Trait<string>[] = [
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

type Place = (usage: string, tokens: number, dice: Dice) => string

/** In a place that counts only where those before it have nothing usable. */
export const decoy = 6_000

/** The member with the usage, which servers have in several places and forms. */
export const places: readonly Trait<Place>[] = [
  ...Array<Trait<Place>>(6).fill(['at the top', true, (usage) => `"usage":${usage}`]),
  ['in choices[0]', true, (usage) => `"choices":[{"index":0,"usage":${usage}}]`],
  [
    'in two places',
    true,
    (usage) =>
      `"x_groq":{"usage":{"prompt_tokens":0,"completion_tokens":${decoy},"total_tokens":${decoy}}},"usage":${usage}`,
  ],
  [
    'in choices[0] and x_groq',
    true,
    (usage) =>
      `"choices":[{"usage":${usage}}],"x_groq":{"usage":{"prompt_tokens":0,"completion_tokens":${decoy},"total_tokens":${decoy}}}`,
  ],
  [
    'iterations',
    true,
    (_, tokens, dice) => `"usage":{"total_tokens":1,"iterations":${iterations(tokens, dice)}}`,
  ],
  ['no iterations', true, (usage) => `"usage":${usage.replace('{', '{"iterations":[],')}`],
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
export const huge: readonly Trait<string>[] = [
  ['huge', false, `"x":"${'lorem '.repeat(2_000_000)}",`],
]
