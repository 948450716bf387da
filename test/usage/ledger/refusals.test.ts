import { test } from 'tap'
import type { Grant } from '../../../src/decide/decision.ts'
import { userInLines } from '../../../src/ratelimit/rules/counter-key.ts'
import { createRefusalSums } from '../../../src/usage/ledger/refusals.ts'
import type { UsageLedger } from '../../../src/usage/store.ts'

test('refusals are of the user that the usage is of, however long the name', async (t) => {
  const added: Parameters<UsageLedger['addRefusals']>[0][number][] = []
  const sums = createRefusalSums({ addRefusals: async (groups) => void added.push(...groups) })
  const user = 'ü'.repeat(500)
  const grant = (name: string) =>
    ({
      ...{ caller: { by: 'key', keyId: 'k1', user: name }, subscription: 'plenty' },
      model: { key: 'llm/sim' },
    }) as Grant
  for (const name of [user, user, 'ann']) sums.note(grant(name), 3_600_001)
  await sums.flush()
  t.strictSame(
    added.map(({ user: its, refusals, hour }) => [its, refusals, hour]),
    [
      [userInLines(user), 2, 3_600_000],
      ['ann', 1, 3_600_000],
    ],
  )
  t.not(userInLines(user), user)
})
