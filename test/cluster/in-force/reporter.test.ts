import { test } from 'tap'
import { createInForceReport } from '../../../src/cluster/in-force/reporter.ts'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import { openPool } from '../../../src/store/postgres/postgres.ts'
import { createMigratedDatabase } from '../../support/database.ts'
import { modelRef, snapshotOf, subscription } from '../../support/documents.ts'

test('the policies of what is in force now are read, whatever has been reported', async (t) => {
  const sql = openPool({ url: await createMigratedDatabase(t), connections: 1 })
  t.teardown(() => sql.end())
  const limitedTo = (limit: number) =>
    snapshotOf(
      modelRef('small'),
      subscription('basic', { users: ['ada'] }, { 'llm/small': [[limit, '1h']] }),
    )
  let snapshot: Snapshot = limitedTo(100)
  const report = createInForceReport({
    ...{
      sql,
      replica: 'b1f0e2f4-6f0e-4c57-9a3c-2f1f7f3c9a10',
      onFault: (error) => void t.fail(String(error)),
    },
    state: () => ({ snapshot, refused: [] }),
    envoyOf: () => 'taken',
  })
  t.teardown(report.close)
  const digest = async () => {
    const { policies, snapshot: from } = await report.readCurrent()
    t.equal(from, snapshot)
    return policies.byModel.get('llm/small')?.limits?.digest
  }
  const before = await digest()
  snapshot = limitedTo(1)
  const [after, again] = await Promise.all([digest(), digest()])
  t.not(after, before)
  t.equal(again, after)
})
