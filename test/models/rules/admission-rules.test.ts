import { test } from 'tap'
import type { AdmissionDefaults } from '../../../src/kinds/resources.ts'
import { compile } from '../../../src/models/rules/compile.ts'
import { modelRef, resourceOf, subscription } from '../../support/documents.ts'

const owner = { users: ['ada'] }
const reserving: AdmissionDefaults = { mode: 'reserve', overshoot: 0.1, charge: 'end' }

/** The rules of a Subscription with this `spec.admission`. */
function rulesOf(admission: object | undefined, defaults?: AdmissionDefaults) {
  const more = admission === undefined ? {} : { admission }
  const written = subscription('one', owner, { 'llm/small': [[5, '1m']] }, more)
  const resources = [modelRef('small'), written].map(resourceOf)
  const first = compile(resources, undefined, defaults)
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

test('what a Subscription leaves out is as the settings say', async (t) => {
  for (const admission of [undefined, {}, { mode: 'reserve' }]) {
    t.same(rulesOf(admission, reserving), { overshoot: 0.1, charge: 'end' })
  }
  t.same(rulesOf({ overshootPercent: 0 }, reserving), { overshoot: 0, charge: 'end' })
  const own = { mode: 'reserve', charge: 'admission', overshootPercent: 50 }
  t.same(rulesOf(own, reserving), { overshoot: 0.5, charge: 'admission' })
})

test('a Subscription may count where all others reserve', async (t) => {
  t.equal(rulesOf({ mode: 'count' }, reserving), undefined)
})

test('the mode stays count if only the other defaults are set', async (t) => {
  t.equal(rulesOf(undefined, { ...reserving, mode: 'count' }), undefined)
  t.equal(rulesOf({ mode: 'reserve' }, { ...reserving, mode: 'count' })?.overshoot, 0.1)
})
