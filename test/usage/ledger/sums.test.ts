import { test } from 'tap'
import { createUsageSums } from '../../../src/usage/ledger/sums.ts'
import type { Usage } from '../../../src/usage/rules/usage.ts'

const usage: Usage = {
  ...{ user: 'ada', subscription: 'team-a', model: 'llm/small', status: 200, bytes: 0 },
  ...{ reported: new Map(), estimate: { input: 50, bytesPerToken: 200 } },
}

test('what is charged is summed, whether or not there was a response', async (t) => {
  const sums = createUsageSums('allow')
  sums.add({ ...usage, reported: new Map([['total_tokens', 7]]) }, 0)
  sums.add({ ...usage, status: 0, hasLeft: true }, 0)
  sums.add({ ...usage, status: 0 }, 0)
  sums.add({ ...usage, status: 503 }, 0)
  t.match(sums.take(), [{ answers: 2, total: 57, estimated: 50, input: 0, output: 0 }])
})
