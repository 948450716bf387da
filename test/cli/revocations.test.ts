import { type Test, test } from 'tap'
import { createPropagationWatch } from '../../src/keys/revocations/propagation.ts'
import { runAt } from '../support/command.ts'
import { addReplica, createKeyDatabase, startFollower } from '../support/followers.ts'

/** A database with one running process, and one that was killed ten minutes ago. */
async function createPair(t: Test) {
  const { url, sql } = await createKeyDatabase(t)
  const running = await startFollower(t, url, { name: 'running', servesMs: 900_000 })
  const gone = await addReplica(sql, 'gone')
  await sql`
    update tollgate_replicas set seen_at = now() - interval '10 minutes',
      serves_until = now() + interval '5 minutes' where id = ${gone}`
  return { url, sql, running }
}

/** Runs the command; `answer` is the person's answer, undefined without a terminal. */
async function run(url: string, args: readonly string[], answer?: string) {
  const env = { DATABASE_URL: url }
  const { asked, ...rest } = await runAt({ env, answer }, 'revocations', ...args)
  return { ...rest, asked: asked.length }
}

test('lists the processes that revocations wait for', async (t) => {
  const { url } = await createPair(t)
  const { status, out } = await run(url, [])
  t.equal(status, 0)
  const [header, first, second, ...rest] = out?.split('\n') ?? []
  t.match(header, /^NAME +SEEN +MAY SERVE FOR +PLACE$/)
  t.match(first, /^gone +1[01] min ago +5 min +gone$/)
  t.match(second, /^running +\d+ s ago +15 min +running$/)
  t.strictSame(rest, [])
  const { data } = JSON.parse((await run(url, ['--json'])).out ?? '')
  t.match(data, [{ name: 'gone' }, { name: 'running' }])
  for (const { unseenMs, servesMs, lastSeenAt, servesUntil } of data) {
    t.ok(Number.isInteger(unseenMs) && Number.isInteger(servesMs), 'whole milliseconds')
    t.ok(Math.abs(Date.now() - unseenMs - Date.parse(lastSeenAt)) < 60_000, lastSeenAt)
    t.ok(Math.abs(Date.now() + servesMs - Date.parse(servesUntil)) < 60_000, servesUntil)
    t.match([lastSeenAt, servesUntil], [/^[\d-]{10}T[\d:]{8}Z$/, /^[\d-]{10}T[\d:]{8}Z$/])
  }
})

test('forgets an ended process after confirmation', async (t) => {
  const { url, sql, running } = await createPair(t)
  const propagation = createPropagationWatch({ pool: sql, id: running.id, others: () => [] })
  t.match(await propagation.wait(), { state: 'pending', waitingFor: ['gone'] })
  const declined = await run(url, ['forget', 'gone'], 'n')
  t.match(declined, { status: 1, asked: 1, err: /cut off .* revoked keys pass for another 5 min/ })
  t.match(await run(url, ['forget', 'gone']), { status: 1, err: /no terminal to ask at; .*--yes/ })
  t.match(await propagation.wait(), { state: 'pending' })
  t.match(await run(url, ['forget', 'gone'], 'y'), { status: 0, out: 'Forgotten: gone.' })
  t.match(await propagation.wait(), { state: 'confirmed', replicas: 1 })
})

test('--yes confirms without a question', async (t) => {
  const { url } = await createPair(t)
  t.match(await run(url, ['forget', 'gone', '--yes']), { status: 0, asked: 0 })
  t.match(await run(url, ['forget', 'gone', '--yes']), { status: 1, err: /no process called gone/ })
})

test('does not forget a running process', async (t) => {
  const { url } = await createPair(t)
  const { status, err } = await run(url, ['forget', 'running', '--yes'])
  t.equal(status, 1)
  t.match(err, /running is running/)
})

test('invalid arguments say where help is', async (t) => {
  for (const args of [['forget'], ['forget', 'a', 'b'], ['list'], ['--yes'], ['--all']]) {
    const { status, err } = await run('postgres://nowhere/x', args)
    t.equal(status, 2, args.join(' '))
    t.match(err, / See tollgate revocations.* --help\.$/)
  }
  t.match(await runAt({}, 'revocations'), { status: 1, err: /DATABASE_URL/ })
})
