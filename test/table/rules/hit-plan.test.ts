import { test } from 'tap'
import type { Grant } from '../../../src/decide/decision.ts'
import { toCheckResponse } from '../../../src/extauthz/check-response.ts'
import { maxRecordText, maxTemplateText } from '../../../src/table/rules/format.ts'
import { recordText, templateText } from '../../../src/table/rules/hit-plan.ts'
import { modelRef, snapshotOf } from '../../support/documents.ts'
import { checkResponse } from '../../support/envoy-messages.ts'
import { readHead } from '../../support/line-head.ts'
import { grantOf } from '../../support/table-world.ts'

const specs: readonly object[] = [
  {},
  { timeouts: { idle: '1m', answer: '20m' }, retries: 0 },
  { credential: { file: 'key' }, modelIds: ['a', 'b'] },
  { output: { streamUsage: 'unasked', maxTokensField: 'max_tokens' } },
  { output: { usageInEveryChunk: true }, state: 'shared', modelFields: ['route'] },
]

/** A grant for a model with this spec. */
function grantFor(spec: object, more: Partial<Grant> = {}): Grant {
  const model = snapshotOf(modelRef('small', spec)).models.get('llm/small') as Grant['model']
  const caps = { tokenRateLimits: [{ limit: 50, window: '1m' }] }
  const grant = grantOf('älice "x"\n', [[1_000, '1h']], caps)
  return { ...grant, model, bodyNames: model.bodyNames, payer: 'organization=a&rate=b', ...more }
}

function read(text: string | undefined) {
  const [flags = '', subject = '', path = '', ...rest] = (text ?? '').split('\n')
  const [names, open, chunkUsage, maximum, policy, limits, ...headers] = rest
  return { flags, subject, path, names, open, chunkUsage, maximum, policy, limits, headers }
}

const given = (value: string | undefined) => (value === '' ? undefined : value)

test('table and check say the same of a grant', async (t) => {
  for (const spec of specs) {
    for (const dialect of ['openai', 'anthropic'] as const) {
      const grant = grantFor(spec)
      const plan = read(templateText(grant, dialect))
      const bytes = toCheckResponse(grant, 0, dialect, undefined, undefined, {
        ...{ id: 'request-1', startedAt: 5 },
      })
      const { ok_response, dynamic_metadata } = checkResponse.decode(bytes) as unknown as {
        ok_response: Record<string, { header: { key: string; value: string } }[]>
        dynamic_metadata: {
          fields: Record<string, { stringValue?: string; boolValue?: boolean }>
        }
      }
      const headers = Object.fromEntries(
        [...(ok_response.headers ?? []), ...(ok_response.response_headers_to_add ?? [])].map(
          ({ header }) => [header.key, header.value],
        ),
      )
      t.equal(plan.path, headers['x-tollgate-path'])
      t.equal(given(plan.names), headers['x-tollgate-models'])
      t.equal(given(plan.open), headers['x-tollgate-open'])
      t.equal(given(plan.chunkUsage), headers['x-tollgate-chunk-usage'])
      t.equal(given(plan.maximum), headers['x-tollgate-maximum'])
      t.equal(plan.policy, headers['ratelimit-policy'])
      t.equal(plan.limits, '1h:1000:u,key-1m:50:k')
      t.equal(plan.headers.pop(), '', 'each line is ended')
      const others = new Set(Object.keys(headers))
      for (const header of plan.headers) {
        const [name = '', value] = header.split(/: (.*)/)
        t.equal(value, headers[name])
        others.delete(name)
      }
      t.strictSame(
        [...others].filter((name) => !/path|models|open|chunk|maximum|ratelimit/.test(name)),
        [],
        'no header is missing',
      )
      const { fields } = dynamic_metadata
      t.equal(plan.flags.includes('c'), fields.credential?.boolValue === true)
      t.equal(plan.flags.includes('a'), fields.dialect?.stringValue === 'anthropic')
      const caller = recordText(grant.caller, grant.keyLimits?.counted)
      const line = `{"start":5,"id":"request-1","by":"table",${plan.subject},${caller}}`
      const checked = readHead(fields.line?.stringValue)
      t.strictSame(readHead(line), { ...checked, by: 'table', held: undefined })
    }
  }
})

test('flags say what a response needs', async (t) => {
  const estimate = { input: 5, bytesPerToken: 4 }
  const held = {
    ...{ bytes: 1, maxOutput: undefined, choices: undefined, ceiling: Infinity, admittedAt: 0 },
    estimate,
  }
  t.equal(read(templateText(grantFor({}), 'openai')).flags, '')
  const all = grantFor({ credential: { file: 'key' } }, { held })
  t.equal(read(templateText(all, 'anthropic')).flags, 'cae')
})

test('what does not fit the form has no template', async (t) => {
  for (const more of [
    { upstreamPath: '/v1/a\nx: y' },
    { cluster: 'a\tb' },
    { subscription: 'a\u0085b' },
    { bodyNames: 'a\tb\nc' },
    { bodyNames: 'x'.repeat(maxTemplateText) },
  ]) {
    t.equal(templateText(grantFor({}, more), 'openai'), undefined)
  }
  t.type(templateText(grantFor({}, { bodyNames: 'a\tb' }), 'openai'), 'string')
})

test('a long user has no record', async (t) => {
  const textOf = (user: string) => recordText({ ...grantOf(user, []).caller, user }, undefined)
  const rest = Buffer.byteLength(textOf('') ?? '')
  t.equal(Buffer.byteLength(textOf('x'.repeat(maxRecordText - rest)) ?? ''), maxRecordText)
  t.equal(textOf('x'.repeat(maxRecordText - rest + 1)), undefined)
  t.equal(textOf('\u{1f600}'.repeat(40)), undefined, 'its bytes count')
})
