import { test } from 'tap'
import { parseEstimate, toEstimateText } from '../../../src/core/decision/unreported.ts'
import { chargeOf, type Usage } from '../../../src/core/decision/usage.ts'

const usage: Usage = {
  ...{ user: 'ada', subscription: 'team-a', model: 'llm/small', status: 200, bytes: 1_000 },
  ...{ reported: new Map(), estimate: { input: 50, bytesPerToken: 200 } },
}

const reporting = (fields: Readonly<Record<string, unknown>>, more: Partial<Usage> = {}) =>
  chargeOf({ ...usage, ...more, reported: new Map(Object.entries(fields)) }, 'allow')

test('an estimate keeps its figures in text', async (t) => {
  const text = toEstimateText({ input: 49.6, bytesPerToken: 199.9 })
  t.strictSame(parseEstimate(text), { input: 50, bytesPerToken: 200 })
  for (const odd of [undefined, null, 7, '', '-', '1', '1;', ';1', '-1;2', '1;2;3', '1e3;2']) {
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
  t.strictSame(reporting({ streamed: true }), { tokens: 55, unusable: true, estimated: 55 })
  t.strictSame(reporting({}), { tokens: 300, unusable: true, estimated: 300 }, 'no stream')
  const embeddings = { estimate: { input: 50, bytesPerToken: 0 } }
  t.equal(reporting({}, embeddings).tokens, 50, 'no output')
})

test('of what is reported nothing is estimated', async (t) => {
  const half = { tokens: 17, unusable: true, estimated: 5 }
  t.strictSame(reporting({ prompt_tokens: 12, streamed: true }), half, 'the output')
  const other = { tokens: 52, unusable: true, estimated: 50 }
  t.strictSame(reporting({ completion_tokens: 2, streamed: true }), other, 'the input')
})

test('a message that only began is charged what it sent', async (t) => {
  const begun = { start_input_tokens: 30, start_output_tokens: 1, streamed: true }
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

test('without an estimate, or a success, nothing is estimated', async (t) => {
  const bare = { ...usage, estimate: undefined } as unknown as Usage
  t.strictSame(chargeOf(bare, 'allow'), { tokens: undefined, unusable: true, estimated: 0 })
  t.strictSame(chargeOf(bare, 'estimate'), { tokens: 250, unusable: true, estimated: 250 })
  for (const status of [0, 429, 500]) t.equal(reporting({}, { status }).tokens, undefined)
})
