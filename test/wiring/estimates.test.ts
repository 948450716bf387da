import { test } from 'tap'
import { mayEstimate } from '../../src/wiring/parts.ts'
import { modelRef, snapshotOf, subscription } from '../support/documents.ts'

function snapshotWith(more: Parameters<typeof subscription>[3]) {
  const plain = subscription('plain', { groups: ['other'] }, { 'llm/sim': [[1_000, '1h']] })
  const own = subscription('own', { groups: ['team'] }, { 'llm/sim': [[1_000, '1h']] }, more)
  return snapshotOf(modelRef('sim'), plain, own)
}

test('requests that reserve, or have a price, are estimated', async (t) => {
  t.notOk(mayEstimate(snapshotWith({})))
  t.ok(mayEstimate(snapshotWith({ admission: { mode: 'reserve' } })))
  const ofModels = { billingRate: { perToken: '0.001' } }
  const limit = { name: 'month', of: 'cost', per: 'user', limit: '100', window: 'month' }
  t.ok(mayEstimate(snapshotWith({ named: [limit], ofModels })), 'a limit on cost')
  t.ok(mayEstimate(snapshotWith({ ofModels })), 'which a key may have of its own')
})
