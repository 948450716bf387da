import { test } from 'tap'
import { maxNameLength } from '../../../src/formats/bounded-text.ts'
import { formatPayer, parsePayer } from '../../../src/models/rules/payer.ts'
import { modelRef, snapshotOf, subscription } from '../../support/documents.ts'

const none = { organizationId: '', costCenter: '', labels: {} }
const free = { billingRate: undefined }

test('a payer is read as it was written', async (t) => {
  for (const text of ['acme', 'a&b=c', '"\\', 'line\nbreak', 'ö 🦊', '+%20', '-', '0']) {
    const written = formatPayer(
      { organizationId: text, costCenter: `${text}2`, labels: {} },
      { billingRate: { perToken: '0.000002' } },
    )
    t.match(written, /^[!#-[\]-~]+$/, 'it needs no escapes in JSON')
    const payer = { organization: text, costCenter: `${text}2`, rate: '0.000002' }
    t.strictSame(parsePayer(written ?? ''), payer)
  }
})

test('what a Subscription does not say is empty', async (t) => {
  t.equal(formatPayer(none, free), undefined)
  t.equal(formatPayer(none, { billingRate: { perToken: '1' } }), 'rate=1')
  t.equal(formatPayer(none, { billingRate: { perToken: '1.5e-07' } }), 'rate=0.00000015')
  for (const text of ['', '-', 'rate', '&&&', '%', 'x=y']) {
    t.strictSame(parsePayer(text), { organization: '', costCenter: '', rate: '' }, text)
  }
})

test('long names are cut, and stay different', async (t) => {
  const organizationOf = (organizationId: string) =>
    parsePayer(formatPayer({ ...none, organizationId }, free) ?? '').organization
  const long = 'x'.repeat(maxNameLength)
  t.equal(organizationOf(long), long)
  t.equal(organizationOf(`${long}1`).length, maxNameLength)
  t.not(organizationOf(`${long}1`), organizationOf(`${long}2`))
  t.equal(organizationOf('a\0b\ud800'), 'a\uFFFDb\uFFFD', 'databases do not store these')
})

test('a subscription has the payer of each model', async (t) => {
  const everybody = { groups: ['all'] }
  const basic = subscription('basic', everybody, { 'llm/a': [[1, '1m']], 'llm/b': [[1, '1m']] })
  basic.spec.tokenMetadata = { organizationId: 'acme' }
  const [, second] = basic.spec.modelRefs as { billingRate?: object }[]
  Object.assign(second ?? {}, { billingRate: { perToken: '0.5' } })
  const free = subscription('free', everybody, { 'llm/a': [[1, '1m']] })
  const { subscriptions } = snapshotOf(modelRef('a'), modelRef('b'), basic, free)
  t.strictSame(
    [...(subscriptions.get('basic')?.terms ?? [])].map(([model, { payer }]) => [model, payer]),
    [
      ['llm/a', 'organization=acme'],
      ['llm/b', 'organization=acme&rate=0.5'],
    ],
  )
  t.equal(subscriptions.get('free')?.terms.size, 0)
})
