import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { reportAllInForce, reportChanges } from '../../../src/cluster/in-force/report-rows.ts'
import { watchReports } from '../../../src/cluster/in-force/reports.ts'
import type { Reports } from '../../../src/cluster/rules/enforcement.ts'
import { migrate } from '../../../src/store/postgres/migrate.ts'
import { openPool } from '../../../src/store/postgres/postgres.ts'
import { createDatabase } from '../../support/database.ts'
import { poll } from '../../support/poll.ts'
import { startTcpProxy } from '../../support/tcp-proxy.ts'

test('reports are read as they arrive, and an unavailable database is a problem', async (t) => {
  const database = await createDatabase(t)
  const sql = openPool({ url: database, connections: 1 })
  t.teardown(() => sql.end())
  await migrate(sql)
  const id = randomUUID()
  await sql`insert into tollgate_replicas (id, name, place, seen_at, serves_until, acknowledged)
    values (${id}, 'one', 'one', now(), now() + interval '1 hour', 0)`
  const edition = randomUUID()
  const entry = { access: 'a', limits: '', server: '1', envoy: 'taken' } as const
  await reportAllInForce(sql, id, edition, new Map([['llm/a', entry]]))

  const proxy = await startTcpProxy(t, Number(new URL(database).port))
  const url = proxy.through(database)
  const own = openPool({ url, connections: 1 })
  t.teardown(() => own.end())
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  let reports: Reports = []
  const changes: (readonly string[] | undefined)[] = []
  const problems: (string | undefined)[] = []
  watchReports({
    ...{ sql: own, url, signal: closing.signal },
    onRead(found, changed) {
      reports = found
      if (changed?.size !== 0) changes.push(changed && [...changed])
    },
    onProblem: (problem) => problems.push(problem),
  })
  const serverOf = () => ('problem' in reports ? '' : reports[0]?.inForce.get('llm/a')?.server)
  await poll(() => serverOf() === '1', 'the report is read')
  t.strictSame(changes, [undefined], 'anything may have changed')
  const next = new Map([['llm/a', { ...entry, server: '2' }]])
  await reportChanges(sql, id, { edition, revision: 1 }, next)
  await poll(() => serverOf() === '2', 'the next report is read')
  t.strictSame(changes, [undefined, ['llm/a']], 'only the new entry')

  proxy.refuse()
  await poll(() => 'problem' in reports, 'the database is unavailable', 20_000)
  t.equal(problems.length, 1)
  proxy.heal()
  await poll(() => serverOf() === '2', 'the database is back', 20_000)
  t.equal(problems.at(-1), undefined)
})
