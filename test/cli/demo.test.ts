import { join } from 'node:path'
import { test } from 'tap'
import { findEmbeddedPostgres } from '../../dev/postgres/embedded-postgres.ts'
import { runAt } from '../support/command.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { createPool } from '../support/key-store.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ownSettings, runTollgate } from '../support/tollgate.ts'

const skip = envoyPath() === undefined && 'no Envoy'

test('the sample has keys, traffic and two weeks of usage to look at', { skip }, async (t) => {
  const settings = await ownSettings(temporaryFolder(t))
  const { DATA_DIR = '' } = settings
  const url = `http://${settings.GATEWAY_ADDRESS}`
  const run = (...args: readonly string[]) => runAt({ env: { DATA_DIR } }, 'demo', ...args)
  const up = runTollgate(t, ['up'], settings)
  await up.until('Ctrl-C stops everything.')
  t.match(up.output(), `${url}/console`)
  t.match(up.output(), `DATA_DIR=${DATA_DIR} bin/tollgate demo`)
  t.match(up.output(), /carol-token/)
  const ask = async (path: string, body?: string) => {
    const method = body === undefined ? 'GET' : 'POST'
    const headers = { authorization: 'Bearer admin-token' }
    return await (await fetch(`${url}${path}`, { method, headers, ...(body && { body }) })).text()
  }
  const from = new Date(Date.now() - 20 * 86_400_000).toISOString().slice(0, 10)
  const usage = async () => {
    const { data } = JSON.parse(await ask(`/v1/usage?from=${from}&group_by=user`))
    const rows = data as Record<string, number | string>[]
    return rows.filter(({ user }) => String(user).startsWith('demo-'))
  }
  const keys = async () => {
    const filters = '{"filters":{"status":["active"],"labelsContain":{"made":"tollgate-demo"}}}'
    return JSON.parse(await ask('/v1/api-keys/search', filters)).data.length
  }
  const database = findEmbeddedPostgres(join(DATA_DIR, 'postgres')) ?? ''
  const sql = await createPool(t, database)
  const rows = async () => {
    const [counted] = await sql`
      select count(*) filter (where demo)::int as demo, count(*) filter (where not demo)::int as real,
        (select count(*)::int from tollgate_usage_journals) as journals,
        (select count(*)::int from tollgate_usage_gaps) as gaps,
        (select count(*)::int from tollgate_counter_resets) as resets,
        (select count(*)::int from tollgate_notices) as notices
      from tollgate_usage_hours`
    return counted
  }
  const shown: unknown[] = []
  for (let round = 1; round <= 2; round += 1) {
    const { status, out, err } = await run('--requests', '72')
    t.equal(status, 0)
    t.match(err, '14 of 14 days of usage are written.')
    t.match(out, /^200 +\d+$/m)
    t.match(out, /^403 +\d+$/m)
    t.match(out, /^429 +\d+$/m)
    t.match(out, `6 keys and their usage: ${url}/console`)
    const sent = [...out.matchAll(/^\d{3} +(\d+)$/gm)].reduce((sum, [, n]) => sum + Number(n), 0)
    t.equal(sent, 72, 'as many requests as were asked for')
    t.equal(await keys(), 6, 'a second demo leaves no more keys')
    shown.push(await usage())
  }
  t.strictSame(shown[1], shown[0], 'and the same history')
  const history = await usage()
  t.ok(history.length >= 5, 'several users')
  for (const { user, cost, total_tokens: total } of history) {
    t.ok(Number(cost) > 0 && Number(total) > 10_000, `${user}: ${total} tokens for ${cost}`)
  }
  t.ok(history.some(({ refusals_approximate: refusals }) => Number(refusals) > 0))
  const days = JSON.parse(await ask(`/v1/usage?from=${from}&group_by=day,model`)).data
  t.ok(new Set(days.map(({ start }: { start: string }) => start)).size >= 13)

  await poll(async () => /^alice,/m.test(await ask('/v1/usage?group_by=user&format=csv')), 'real')
  for (const format of ['csv&group_by=user', 'focus']) {
    t.notMatch(await ask(`/v1/usage?from=${from}&format=${format}`), 'demo-', format)
  }
  const verified = await poll(async () => {
    const said = await runAt({ env: { DATA_DIR } }, 'usage', 'verify')
    return said.out.startsWith('Not finished') ? undefined : said
  }, 'the ledger has the whole journal')
  t.match(verified, { status: 0, out: /sums agree/ })
  t.match(await ask('/v1/counters?user=demo-search'), '"data":[]', 'no limit is used up')

  const before = await rows()
  const { out } = await run('--remove', '--json')
  t.strictSame(JSON.parse(out), { sums: before?.demo, keys: 6 })
  const after = await rows()
  // What was really used and refused is still being added.
  t.ok(after?.real >= before?.real, 'what was real stays')
  t.strictSame(after, { ...before, real: after?.real, demo: 0 }, 'nothing of it is left')
  t.strictSame(await usage(), [])
  t.equal(await keys(), 0)

  // Without the database: as one of another gateway on this machine, or of one that has its own.
  const others = [
    [{ DATA_DIR: temporaryFolder(t) }, 'npm start has made no database in'],
    [{ DATA_DIR, DATABASE_URL: database }, 'DATABASE_URL names another database'],
  ] as const
  for (const [settings, reason] of others) {
    const env = { ...settings, TOLLGATE_URL: url }
    const made = await runAt({ env }, 'demo', '--requests', '24')
    t.match(made, { status: 0, out: `6 keys and their usage: ${url}/console` })
    t.match(made.err, `No usage history was written: ${reason}`)
    t.notMatch(made.out, 'demo-')
    t.equal((await rows())?.demo, 0)
    const removed = await runAt({ env }, 'demo', '--remove')
    t.match(removed, { status: 0, out: 'Removed 0 sums of usage, and revoked 6 keys.' })
    t.match(removed.err, `No usage was removed: ${reason}`)
  }
  const elsewhere = { DATA_DIR, TOLLGATE_URL: 'http://127.0.0.1:9' }
  t.match(await runAt({ env: elsewhere }, 'demo'), { status: 3, err: '127.0.0.1:9' })
  up.signal('SIGTERM')
  await up.ended
  t.match(await run(), { status: 3, err: 'does not run: run npm start' })
  const away = await runAt({ env: { DATA_DIR } }, 'usage', 'verify')
  t.match(away, { status: 3, err: 'does not run: run npm start' })
})

test('a demo is for this machine only, and bounded', async (t) => {
  const DATA_DIR = temporaryFolder(t)
  const run = (TOLLGATE_URL: string, ...args: readonly string[]) =>
    runAt({ env: { TOLLGATE_URL, DATA_DIR } }, 'demo', ...args)
  t.match(await run('http://gateway.example'), {
    status: 1,
    err: /gateway\.example is not on this machine/,
  })
  t.match(await run('', '--remove', '--requests', '5'), { status: 2, err: /no meaning/ })
  for (const number of ['0', '10001', '-1', 'many']) {
    t.match(await run('', '--requests', number), { status: 2, err: /from 1 to 10,000/ })
  }
})
