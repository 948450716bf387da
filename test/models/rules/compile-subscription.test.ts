import { test } from 'tap'
import type { AdmissionMode } from '../../../src/kinds/resources.ts'
import { compile } from '../../support/compile.ts'
import { modelRef, resourceOf, subscription } from '../../support/documents.ts'

const owner = { users: ['ada'] }

/** The rules of a Subscription with this `spec.admission`. */
function rulesOf(admission: object | undefined, byDefault?: AdmissionMode) {
  const more = admission === undefined ? {} : { admission }
  const written = subscription('one', owner, { 'llm/small': [[5, '1m']] }, more)
  const resources = [modelRef('small'), written].map(resourceOf)
  const first = compile(resources, undefined, byDefault)
  // As the gateway does for models that wait for their cluster.
  const again = compile([modelRef('small'), written].map(resourceOf), first)
  const [rules, later] = [first, again].map(({ subscriptions }) => subscriptions.get('one'))
  if (JSON.stringify(rules?.admission) !== JSON.stringify(later?.admission)) throw new Error()
  return rules?.admission
}

test('without settings a Subscription counts', async (t) => {
  for (const admission of [undefined, {}, { charge: 'end' }, { mode: 'count' }]) {
    t.equal(rulesOf(admission), undefined, JSON.stringify(admission))
  }
  t.same(rulesOf({ mode: 'reserve' }), { overshoot: 0.25, charge: 'admission' })
})

test('the mode that a Subscription leaves out is as the setting says', async (t) => {
  for (const admission of [undefined, {}, { mode: 'reserve' }]) {
    t.same(rulesOf(admission, 'reserve'), { overshoot: 0.25, charge: 'admission' })
  }
  t.same(rulesOf({ overshootPercent: 0 }, 'reserve'), { overshoot: 0, charge: 'admission' })
  const own = { mode: 'reserve', charge: 'end', overshootPercent: 50 }
  t.same(rulesOf(own, 'reserve'), { overshoot: 0.5, charge: 'end' })
})

test('a Subscription may count where all others reserve', async (t) => {
  t.equal(rulesOf({ mode: 'count' }, 'reserve'), undefined)
})

test('an entry that lacks what an enforced limit needs is not in force', async (t) => {
  const daily = { name: 'day', of: 'cost', limit: '5', window: 'day' }
  const organizational = { name: 'org', per: 'organization', limit: 5, window: 'day' }
  const observed = { enforce: false }
  const priced = { ofModels: { billingRate: { perToken: '0.1' } } }
  const member = { spec: { tokenMetadata: { organizationId: 'acme' } } }
  const notInForce = 'so the entry of llm/small is not in force'
  /** The problems of a Subscription, and whether it is in force. */
  const checked = (own: object, ofTenant: object) => {
    const written = subscription('one', owner, { 'llm/small': [[5, '1m']] }, own)
    const tenant = {
      ...{ apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant' },
      ...{ metadata: { name: 'default-tenant' }, spec: ofTenant },
    }
    const { subscriptions } = compile([modelRef('small'), written, tenant].map(resourceOf))
    const found = subscriptions.get('one')
    return [found?.phase, ...(found?.problems ?? []).map(({ message }) => message)]
  }
  for (const [own, ofTenant, expected] of [
    [{}, {}, ['Active']],
    [
      {},
      { calendar: { monthStartsOn: 29 } },
      ['Failed', `may have a limit in the Tenant, whose limits cannot be read, ${notInForce}`],
    ],
    [
      { named: [daily] },
      {},
      ['Failed', `needs a billingRate under the limit day on cost, ${notInForce}`],
    ],
    [{ named: [{ ...daily, ...observed }] }, {}, ['Active']],
    [{ named: [daily], ...priced }, {}, ['Active']],
    [
      {},
      { limits: [organizational] },
      [
        'Failed',
        `needs tokenMetadata.organizationId, because the limit org of the Tenant is per organization, ${notInForce}`,
      ],
    ],
    [
      {},
      { limits: [{ ...organizational, ...observed }] },
      [
        'Active',
        'needs tokenMetadata.organizationId, because the limit org of the Tenant is per organization',
      ],
    ],
    [member, { limits: [organizational] }, ['Active']],
  ] as const) {
    t.strictSame(checked(own, ofTenant), expected, JSON.stringify([own, ofTenant]))
  }
})
