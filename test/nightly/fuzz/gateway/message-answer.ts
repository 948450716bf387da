/** Responses in the form of Anthropic's messages, and the iterations of a usage. */
import type { Take } from './answer-traits.ts'
import type { Dice } from './dice.ts'

/** The text of each content block, or of each event. */
const text = '"type":"text_delta","content":"la"'

/** A list of iterations that used this many tokens, one of them at least as output. */
export function iterations(tokens: number, dice: Dice): string {
  const output = 1 + dice.below(tokens)
  const input = tokens - output
  const first = dice.below(input + 1)
  const ended = `"input_tokens":${input - first},"output_tokens":${output}`
  const kind = dice.pick(['message', 'advisor_message', 'new'])
  return dice.pick([
    `[{"type":"${kind}",${ended},"cache_read_input_tokens":${first}}]`,
    `[{"type":"compaction","input_tokens":${first},"output_tokens":0},{"type":"${kind}",${ended}}]`,
    `[ {"input_tokens":${first},"output_tokens":0,"type":"x"} , {"x":[{"input_tokens":5}],${ended}} ]`,
    `[{"type":"message","input_tokens":9,"output_tokens":0},{"type":"fallback_message",${ended},"cache_creation_input_tokens":${first}}]`,
  ])
}

/** What says nothing of the iterations, so that the figures beside it count. */
const noIterations = ['', '"iterations":null,', '"iterations":[],', '"iterations":[{"type":"x"}],']

/** A message of this many tokens, or the events of one. */
export function messageBody(tokens: number, isStream: boolean, dice: Dice, take: Take): string {
  const output = 1 + dice.below(tokens)
  const [input, ...cached] = split(tokens - output, dice)
  const names = ['cache_creation_input_tokens', 'cache_read_input_tokens']
  const caches = cached.map((each, i) => `,"${names[i]}":${each}`).join('')
  const whole = `"input_tokens":${input}${caches}`
  const ended = take([
    ['figures', true, `{${dice.pick(noIterations)}${whole},"output_tokens":${output}}`],
    ['figures', true, `{"output_tokens":${output},${whole},"service_tier":"standard"}`],
    [
      'iterations',
      true,
      `{"input_tokens":0,"output_tokens":0,"iterations":${iterations(tokens, dice)}}`,
    ],
  ] as const)
  if (!isStream) {
    return `{"type":"message","content":[{${text}}],"stop_reason":"end_turn","usage":${ended}}`
  }
  const between = take([
    ['lf', true, '\n'],
    ['crlf', true, '\r\n'],
  ] as const)
  const event = (type: string, rest = '') =>
    `event: ${type}${between}data: {"type":"${type}"${rest}}${between}${between}`
  const reports = take([
    ['at the end', true, ['{}', ended]],
    ['zeros at the start', true, ['{"input_tokens":0,"output_tokens":0}', ended]],
    ['null at the start', true, ['null', ended]],
    ['input at the start', true, [`{${whole},"output_tokens":1}`, `{"output_tokens":${output}}`]],
    [
      'zeros at the end',
      true,
      [`{${whole},"output_tokens":1}`, `{"input_tokens":0,"output_tokens":${output}}`],
    ],
    ['twice', true, [`{${whole},"output_tokens":1}`, `{${whole},"output_tokens":${output}}`]],
  ] as const)
  return [
    event('message_start', `,"message":{"role":"assistant","content":[],"usage":${reports[0]}}`),
    event('ping'),
    event('content_block_delta', `,"index":0,"delta":{${text}}`).repeat(dice.below(4)),
    event('message_delta', `,"delta":{"stop_reason":"end_turn"},"usage":${reports[1]}`),
    event('message_stop'),
  ].join('')
}

/** Three numbers with this sum. */
function split(sum: number, dice: Dice): readonly [number, number, number] {
  const first = dice.below(sum + 1)
  const second = dice.below(sum - first + 1)
  return [first, second, sum - first - second]
}
