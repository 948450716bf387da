import { randomUUID } from 'node:crypto'
import { type Test, test } from 'tap'
import {
  purgeReports,
  type ReportPosition,
  readReports,
  recordProcessStart,
  reportAllInForce,
  reportChanges,
} from '../../../src/cluster/in-force/report-rows.ts'
import type { InForce } from '../../../src/cluster/rules/enforcement.ts'
import { migrate } from '../../../src/store/postgres/migrate.ts'
import { openPool, type Pool } from '../../../src/store/postgres/postgres.ts'
import { createDatabase } from '../../support/database.ts'

const content = (server: string): InForce => ({ access: 'a', limits: '', server, envoy: 'taken' })

async function begin(t: Test) {
  const sql = openPool({ url: await createDatabase(t), connections: 2 })
  t.teardown(() => sql.end())
  await migrate(sql)
  return sql
}

/** Adds a process that may be serving, as the follower of revocations does. */
async function join(sql: Pool, name: string, id: string = randomUUID(), servesS = 60) {
  await sql`insert into tollgate_replicas (id, name, place, seen_at, serves_until, acknowledged)
    values (${id}, ${name}, ${name}, now(), now() + ${servesS}::float8 * interval '1 second', 0)`
  return id
}

/** What is new since `known`, as text. */
async function read(sql: Pool, known: ReadonlyMap<string, ReportPosition> = new Map()) {
  const found = await readReports(sql, known, 5_000)
  return found.map(({ name, last, changes, unreportedMs }) => {
    const told = [...changes].map(([model, each]) => `${model}=${each?.server}`).sort()
    const of = unreportedMs === undefined ? 'silent' : `revision ${last?.revision}`
    return `${name}: ${of} ${told.join(' ')}`.trim()
  })
}

test('a report is read whole first, then only its changes', async (t) => {
  const sql = await begin(t)
  const id = await join(sql, 'one')
  const edition = randomUUID()
  await reportAllInForce(
    sql,
    id,
    edition,
    new Map([
      ['llm/a', content('1')],
      ['llm/b', content('1')],
    ]),
  )
  t.strictSame(await read(sql), ['one: revision 1 llm/a=1 llm/b=1'])
  const known = new Map([[id, { edition, revision: 1 }]])
  t.strictSame(await read(sql, known), ['one: revision 1'])
  const changes = new Map([
    ['llm/b', content('2')],
    ['llm/a', undefined],
  ])
  t.ok(await reportChanges(sql, id, { edition, revision: 1 }, changes))
  t.strictSame(await read(sql, known), ['one: revision 2 llm/a=undefined llm/b=2'])
  t.ok(await reportChanges(sql, id, { edition, revision: 2 }, new Map()), 'it still exists')
  t.strictSame(await read(sql, new Map([[id, { edition, revision: 2 }]])), ['one: revision 2'])
})

test('after a change of edition the whole report is read', async (t) => {
  const sql = await begin(t)
  const id = await join(sql, 'one')
  await reportAllInForce(
    sql,
    id,
    randomUUID(),
    new Map([
      ['llm/a', content('1')],
      ['llm/b', content('1')],
    ]),
  )
  const edition = randomUUID()
  await reportAllInForce(sql, id, edition, new Map([['llm/b', content('2')]]))
  const other = new Map([[id, { edition: randomUUID(), revision: 9 }]])
  t.strictSame(await read(sql, other), ['one: revision 1 llm/b=2'])
})

test('a database that was reset is noticed', async (t) => {
  const sql = await begin(t)
  const id = await join(sql, 'one')
  const edition = randomUUID()
  await reportAllInForce(sql, id, edition, new Map([['llm/a', content('1')]]))
  const changes = new Map([['llm/a', content('2')]])
  t.notOk(await reportChanges(sql, id, { edition, revision: 7 }, changes))
  t.notOk(await reportChanges(sql, id, { edition: randomUUID(), revision: 1 }, new Map()))
  await sql`delete from tollgate_reports`
  t.notOk(await reportChanges(sql, id, { edition, revision: 1 }, changes))
  await reportAllInForce(sql, id, edition, changes)
  t.strictSame(await read(sql), ['one: revision 1 llm/a=2'])
})

test('a starting process is not waited for, one of an earlier version is', async (t) => {
  const sql = await begin(t)
  const starting = randomUUID()
  await recordProcessStart(sql, starting)
  await recordProcessStart(sql, starting)
  await join(sql, 'starting', starting)
  await join(sql, 'older')
  await join(sql, 'ended', randomUUID(), -1)
  t.strictSame(await read(sql), ['older: silent'])
  await reportAllInForce(sql, starting, randomUUID(), new Map())
  t.strictSame(await read(sql), ['older: silent', 'starting: revision 1'])
})

test('reports of ended processes are deleted', async (t) => {
  const sql = await begin(t)
  const id = await join(sql, 'one')
  const gone = randomUUID()
  for (const each of [id, gone]) {
    await reportAllInForce(sql, each, randomUUID(), new Map([['llm/a', content('1')]]))
  }
  await purgeReports(sql)
  const count = async () => (await sql`select from tollgate_in_force`).count
  t.equal(await count(), 2, 'not at once')
  await sql`update tollgate_reports set reported_at = now() - interval '2 hours'`
  await purgeReports(sql)
  t.equal(await count(), 1)
  t.strictSame(await read(sql), ['one: revision 1 llm/a=1'])
})
