import { appendFileSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { type Test, test } from 'tap'
import { createCheck } from '../../src/extauthz/check.ts'
import { createLimitEnforcer } from '../../src/extauthz/check-limits.ts'
import { addExact, type ExactInt, subtractExact } from '../../src/formats/exact.ts'
import { formatMoney, formatPriceUnits, parseMoney, toPriceUnits } from '../../src/formats/money.ts'
import { openJournalFolder } from '../../src/journal/journal-folder.ts'
import type { Snapshot } from '../../src/models/rules/snapshot.ts'
import { loadDocuments } from '../../src/models/sources/pipeline.ts'
import { pathRules } from '../../src/operations/operations.ts'
import { connectRedis } from '../../src/ratelimit/redis/connection.ts'
import { createEstimators } from '../../src/ratelimit/rules/estimates/estimators.ts'
import { createRedisSums } from '../../src/ratelimit/sums/redis-sums.ts'
import { createLedgerFeed } from '../../src/usage/ledger/feed.ts'
import { sourceNames } from '../../src/usage/ledger/journal-files.ts'
import { ensureJournalName } from '../../src/usage/ledger/journal-name.ts'
import { createUsageLedger } from '../../src/usage/ledger/postgres/ledger.ts'
import { lineUses } from '../../src/usage/rules/line-charges.ts'
import { makePlaces, openProcess } from '../ratelimit/sums/journal-sums-world.ts'
import { runAt } from '../support/command.ts'
import { checkOf, checkResponse } from '../support/envoy-messages.ts'
import { createKeyApi } from '../support/key-api.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

const page = readFileSync(new URL('../../docs/budget-month.md', import.meta.url), 'utf8')
const [, documents = ''] = /```yaml\n(.*?)```/s.exec(page) ?? []
const rows = [...page.matchAll(/^\| (2026\S+) \| (\w*) \| (\w*) \| (.*) \| (.*?) \|$/gm)].map(
  ([, at = '', user = '', model = '', what = '', costs = '']) => ({ at, user, model, what, costs }),
)
const groupOf: Readonly<Record<string, string>> = { ann: 'red', bob: 'red', cyd: 'blue' }
const limit = parseMoney('0.05') ?? 0

async function read(text: string): Promise<Snapshot> {
  const { snapshot, problems } = await loadDocuments(text)
  if (problems.length > 0) throw new Error(JSON.stringify(problems))
  return snapshot
}

/** What Check answers: the head of the line, and headers. */
function readAllowed(bytes: Buffer) {
  const { ok_response, dynamic_metadata } = checkResponse.decode(bytes) as {
    ok_response?: { response_headers_to_add?: { header: { key: string; value: string } }[] }
    dynamic_metadata: { fields: Record<string, { stringValue?: string }> }
  }
  if (ok_response === undefined) throw new Error('the request was refused')
  const headers = (ok_response.response_headers_to_add ?? []).map(({ header }) => header)
  return {
    line: dynamic_metadata.fields.line?.stringValue ?? '',
    left: headers.find(({ key }) => key === 'x-tollgate-budget-remaining')?.value,
  }
}

/** A gateway at a time that the test sets, whose lines are written as the table says. */
async function startGateway(t: Test) {
  const valkey = await startValkey(t)
  const { files, ...places } = makePlaces(t)
  const clock = { now: 0 }
  const connection = connectRedis(valkey.url, () => {})
  t.teardown(() => connection.close())
  await connection.connected(5_000)
  let snapshot = await read(documents)
  const open = () =>
    openProcess(places, {
      store: createRedisSums(connection.commands),
      now: () => clock.now,
      onLoss: 'allow',
      countedOf: (line) => lineUses(line, snapshot),
      onLine: () => {},
      onDelivered: () => {},
    })
  let process = await open()
  t.teardown(() => process.sums.stop(0))
  let user = ''
  const check = createCheck({
    authenticate: () => ({
      ...{ by: 'key', user, groups: [groupOf[user] ?? ''], keyId: user, subscription: 'teams' },
    }),
    snapshot: () => snapshot,
    limits: createLimitEnforcer({
      counters: { read: (...asked) => process.sums.read(...asked) },
      charging: { estimators: createEstimators(), isAlways: false },
    }),
    paths: pathRules(['chat', 'messages']),
    clock: () => clock.now,
    onFault: (error) => t.fail(String(error)),
  })
  return {
    ...{ places, clock },
    async ask(by: string, model: string, operation: string) {
      user = by
      const headers = { 'content-length': '400', 'x-request-id': `${by}-${clock.now}` }
      return readAllowed(await check(checkOf(`/llm/${model}/v1/${operation}`, headers)))
    },
    write: (line: object): void => appendFileSync(files.script, `\n${JSON.stringify(line)}\n`),
    async restart(): Promise<void> {
      await process.sums.stop(1_000)
      process = await open()
    },
    async loseRedis(): Promise<void> {
      await valkey.client.flushall()
    },
    async change(from: string, to: string): Promise<void> {
      snapshot = await read(documents.replace(from, to))
    },
  }
}

/** The line of a response by what the table says of it. */
function lineOf(head: string, what: string) {
  const fields = {
    v: 1,
    metered: true,
    fb: 0,
    ms: 0,
    status: 200,
    sent: true,
    check: JSON.parse(head),
  }
  const [, left] = /left after (\d+) bytes of text/.exec(what) ?? []
  if (left !== undefined) {
    return {
      ...fields,
      bytes: 900,
      reported: { streamed: true, text_bytes: Number(left) },
      flags: 'DC',
    }
  }
  const [, sent] = /sent (\d+) bytes/.exec(what) ?? []
  if (sent !== undefined) return { ...fields, bytes: Number(sent), reported: {} }
  return { ...fields, bytes: 100, reported: JSON.parse(what.replaceAll('`', '')) }
}

/** The ledger of all lines, and what its API and `usage verify` say of it. */
async function feedLedger(t: Test, path: string, now: () => number) {
  const api = await createKeyApi(t)
  const feed = createLedgerFeed({
    ...{
      folder: openJournalFolder(dirname(path)),
      names: sourceNames(path),
      journal: ensureJournalName(path),
    },
    ...{
      ledger: createUsageLedger(api.sql),
      unusableUsage: 'allow',
      clock: now,
      monotonic: () => 0,
    },
    onGap: (gap) => t.fail(JSON.stringify(gap)),
  })
  await feed.step()
  feed.reset()
  return api
}

test('a month of budgets is exact everywhere', { skip: skipValkey }, async (t) => {
  const gateway = await startGateway(t)
  const used = new Map<string, ExactInt>()
  let all: ExactInt = 0
  for (const { at, user, model, what, costs } of rows) {
    gateway.clock.now = Date.parse(at)
    if (what.includes('restarted')) await gateway.restart()
    const [, from, to] = /from (\S+) to (\S+)$/.exec(what) ?? []
    if (from !== undefined && to !== undefined) await gateway.change(from, to)
    if (what.startsWith('Redis')) await gateway.loseRedis()
    if (user === '') continue
    const operation = what.includes('"input_tokens"') ? 'messages' : 'chat/completions'
    const pool = `${at < '2026-03-31T22' ? 'March' : 'April'} ${groupOf[user]}`
    const leftOf = () => formatMoney(subtractExact(limit, used.get(pool) ?? 0))
    const { line, left } = await gateway.ask(user, model, operation)
    t.equal(left, leftOf(), `left before ${at}`)
    gateway.write(lineOf(line, what))
    const cost = parseMoney(costs) ?? 0
    used.set(pool, addExact(used.get(pool) ?? 0, cost))
    all = addExact(all, cost)
    t.equal((await gateway.ask(user, model, operation)).left, leftOf(), `left after ${at}`)
  }
  t.strictSame(
    [...used].map(([pool, sum]) => `${formatMoney(sum)} of ${pool}`),
    [...page.matchAll(/(\S+) of ((?:March|April) (?:red|blue))/g)].map(([said]) => said),
  )

  const { path } = gateway.places
  const { ask, sql, url } = await feedLedger(t, path, () => gateway.clock.now)
  const pools = await sql<{ whom: string; nano: string }[]>`
    select whom, amount::text as nano from tollgate_usage_limits order by begins_at, whom desc`
  t.strictSame(
    pools.map(({ whom, nano }) => `${formatMoney(BigInt(nano))} ${whom}`),
    [...used].map(([pool, sum]) => `${formatMoney(sum)} ${pool.split(' ')[1]}`),
    'the ledger of limits',
  )
  const span = 'from=2026-02-28&to=2026-04-01'
  const usage = await ask(`GET /v1/usage?group_by=organization&${span}`, { as: 'admin' })
  t.match(usage.json().data, [{ cost: formatMoney(all) }], 'the ledger')
  const focus = await ask(`GET /v1/usage?format=focus&${span}`, { as: 'admin' })
  const charges = focus.body.trimEnd().split('\r\n').slice(1)
  const billed = charges.reduce((sum, row) => sum + toPriceUnits(row.split(',', 1)[0] ?? ''), 0n)
  t.equal(formatPriceUnits(billed), formatMoney(all), 'FOCUS')
  t.match(page, `${formatMoney(all)} dollars`)
  const env = { DATABASE_URL: url, USAGE_JOURNAL: path }
  t.match(await runAt({ env }, 'usage', 'verify'), { status: 0, out: /sums agree/ })
})
