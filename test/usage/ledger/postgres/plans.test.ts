import { test } from 'tap'
import { createMigrated } from '../../../support/key-store.ts'
import { explainUsage, fillLedger, heaviest } from '../../../support/ledger-rows.ts'

test('a user and an organization are read by index, from their months only', async (t) => {
  const sql = await createMigrated(t)
  await fillLedger(sql, 60_000, { users: 500, organizations: 100 })
  for (const [name, index, partitions] of [
    ['a month of one user', 'username', 1],
    ["an organization's year by month", 'organization', 12],
  ] as const) {
    const query = heaviest[name]
    if (query === undefined) throw new Error(name)
    const { nodes } = await explainUsage(sql, query)
    const relations = nodes.flatMap((node) => node['Relation Name'] ?? [])
    t.equal(new Set(relations).size, partitions, `${name}: partitions`)
    for (const node of nodes) t.not(node['Node Type'], 'Seq Scan', name)
    const indexes = nodes.flatMap((node) => node['Index Name'] ?? [])
    t.equal(
      indexes.filter((each) => each.includes(index)).length,
      partitions,
      `${name}: ${indexes}`,
    )
  }
})
