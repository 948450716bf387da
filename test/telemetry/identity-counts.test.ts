import { test } from 'tap'
import { createIdentityCounts } from '../../src/telemetry/identity-counts.ts'

test('tokens and reviews are counted by their result', async (t) => {
  const { figures, onProved, onAccessReviewed } = createIdentityCounts()
  const read = (source: string, result: string) =>
    figures
      .proofs()
      .find(({ attributes }) => attributes.source === source && attributes.result === result)?.value
  t.equal(read('oidc', 'refused'), 0, 'is 0 before the first')
  onProved('oidc', 'refused')
  onProved('oidc', 'refused')
  onProved('cluster', 'failed')
  t.equal(read('oidc', 'refused'), 2)
  t.equal(read('cluster', 'failed'), 1)
  t.equal(read('file', 'ok'), 0)
  onAccessReviewed('failed')
  t.strictSame(
    [...figures.accessReviews],
    [
      ['allowed', 0],
      ['denied', 0],
      ['failed', 1],
    ],
  )
})
