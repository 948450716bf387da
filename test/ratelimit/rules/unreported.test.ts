import { test } from 'tap'
import { formatEstimate, parseEstimate } from '../../../src/ratelimit/rules/unreported.ts'
import { chargeOf, type Usage } from '../../../src/usage/rules/usage.ts'

const usage: Usage = {
  ...{ user: 'ada', subscription: 'team-a', model: 'llm/small', status: 200, bytes: 1_000 },
  ...{ reported: new Map(), estimate: { input: 50, bytesPerToken: 4 } },
}

const reporting = (fields: Readonly<Record<string, unknown>>, more: Partial<Usage> = {}) =>
  chargeOf({ ...usage, ...more, reported: new Map(Object.entries(fields)) }, 'allow')

test('an estimate keeps its figures in text', async (t) => {
  const text = formatEstimate({ input: 49.6, bytesPerToken: 3.999 })
  t.strictSame(parseEstimate(text), { input: 50, bytesPerToken: 4 })
  const before = { input: 50, bytesPerToken: 200, isOfStream: true }
  t.strictSame(parseEstimate('50;200'), before, 'as a version before wrote it')
  for (const odd of [
    undefined,
    null,
    7,
    '',
    '-',
    '1',
    '1;',
    ';1',
    '-1;2',
    '1;2;3',
    '1e3;2',
    '1;2.5',
  ]) {
    t.equal(parseEstimate(odd), undefined, String(odd))
  }
})

test('what is reported is charged, whatever was estimated', async (t) => {
  const exact = { tokens: 7, unusable: false, estimated: 0 }
  t.strictSame(reporting({ total_tokens: 7, streamed: true }), exact)
  t.strictSame(reporting({ total_tokens: 7 }, { bytes: 100_000 }), exact)
  t.strictSame(reporting({ start_input_tokens: 4, output_tokens: 3 }), exact)
})

test('nothing reported is charged by input and bytes', async (t) => {
  const streamed = (fields: object, more = {}) =>
    reporting({ streamed: true, ...fields }, more).tokens
  t.equal(streamed({ text_bytes: 17 }), 55, 'the text of a stream, in however many bytes')
  t.equal(streamed({ text_bytes: 17 }, { bytes: 100_000 }), 55)
  t.equal(streamed({}), 56, 'a stream in which no text was found')
  t.equal(streamed({ text_bytes: -1 }), 56)
  const before = { estimate: { input: 50, bytesPerToken: 200, isOfStream: true } }
  t.equal(streamed({ text_bytes: 17 }, before), 55, 'an estimate of a version before')
  t.strictSame(reporting({}), { tokens: 300, unusable: true, estimated: 300 }, 'no stream')
  const embeddings = { estimate: { input: 50, bytesPerToken: 0 } }
  t.equal(reporting({}, embeddings).tokens, 50, 'no output')
})

test('of what is reported nothing is estimated', async (t) => {
  const half = { tokens: 17, unusable: true, estimated: 5 }
  t.strictSame(reporting({ prompt_tokens: 12, streamed: true, text_bytes: 20 }), half, 'the output')
  const other = { tokens: 52, unusable: true, estimated: 50 }
  t.strictSame(
    reporting({ completion_tokens: 2, streamed: true, text_bytes: 20 }),
    other,
    'the input',
  )
})

test('a message that only began is charged what it sent', async (t) => {
  const begun = { start_input_tokens: 30, start_output_tokens: 1, streamed: true, text_bytes: 17 }
  t.strictSame(reporting(begun), { tokens: 35, unusable: false, estimated: 4 })
  const more = { ...begun, start_output_tokens: 9 }
  const charge = { tokens: 39, unusable: false, estimated: 0 }
  t.strictSame(reporting(more), charge, 'never less than it reported')
})

test('a client that left before the response is charged its input', async (t) => {
  const left = { status: 0, bytes: 0, hasLeft: true }
  t.strictSame(reporting({}, left), { tokens: 50, unusable: false, estimated: 50 })
  const bare = { ...usage, ...left, estimate: undefined } as unknown as Usage
  t.equal(chargeOf(bare, 'estimate').tokens, undefined, 'if what is unreported is charged')
})

test('what a server failed is free, whatever its status', async (t) => {
  const free = { tokens: undefined, unusable: false, estimated: 0 }
  t.strictSame(reporting({ failed: true }), free)
  t.strictSame(reporting({ failed: true, streamed: true }, { hasCostLimit: true }), free)
  t.equal(reporting({ failed: 1 }).unusable, true)
})

test('without an estimate, or a success, nothing is estimated', async (t) => {
  const bare = { ...usage, estimate: undefined } as unknown as Usage
  t.strictSame(chargeOf(bare, 'allow'), { tokens: undefined, unusable: true, estimated: 0 })
  t.strictSame(chargeOf(bare, 'estimate'), { tokens: 250, unusable: true, estimated: 250 })
  for (const status of [0, 429, 500]) t.equal(reporting({}, { status }).tokens, undefined)
})
