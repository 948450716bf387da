import { type Test, test } from 'tap'
import { counterOf } from '../../src/ratelimit/rules/counter-cache.ts'
import { createUsageLedger } from '../../src/usage/ledger/postgres/ledger.ts'
import { runAt } from '../support/command.ts'
import { createTestCounters } from '../support/counters.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'
import { createKeyApi } from '../support/key-api.ts'
import { startAnswering } from '../support/list-api.ts'
import { unpriced } from '../support/unpriced.ts'
import { shownEnd } from '../support/window-ends.ts'

const today = Date.UTC(2026, 2, 1)
const snapshot = snapshotOf(
  modelRef('small'),
  accessPolicy('open', ['llm/small'], { groups: ['team-a'] }),
  subscription('basic', { groups: ['team-a'] }, { 'llm/small': [[1_000, '1m']] }),
)

async function start(t: Test) {
  const counters = createTestCounters()
  const api = await createKeyApi(t, { snapshot, readCounters: counters.readFresh })
  const url = await api.external.listen({ host: '127.0.0.1', port: 0 })
  const ledger = createUsageLedger(api.sql)
  const run = (command: string, token: string, ...args: string[]) =>
    runAt({ env: { TOLLGATE_URL: url, TOLLGATE_TOKEN: token } }, command, ...args)
  async function fill(rows: readonly object[], gaps: readonly { from: number; to: number }[] = []) {
    const { revision } = await ledger.open('journal')
    const group = { hour: today, user: 'alice', subscription: 'basic', model: 'llm/small' }
    const sums = { answers: 1, input: 7, output: 10, cached: 0, reasoning: 0, estimated: 0 }
    const whole = rows.map((row) => ({
      ...group,
      ...sums,
      ...unpriced,
      keyId: '',
      payer: '',
      total: 17,
      ...row,
    }))
    const step = { journal: 'journal', revision, places: [], gaps, closes: false }
    await ledger.feed({ ...step, rows: whole })
  }
  return { api, counters, run, fill }
}

test('shows usage with bars, as JSON and as CSV', async (t) => {
  const { run, fill } = await start(t)
  await fill([
    { payer: 'rate=0.01', model: 'llm/big', total: 1_700, reasoning: 4 },
    { model: '=1+1', total: 850 },
  ])
  const shown = await run('usage', 'alice-token', '--by', 'day,model')
  t.equal(shown.status, 0)
  t.strictSame(shown.out.split('\n'), [
    'START       MODEL    ANSWERS  INPUT  OUTPUT  TOTAL  REASONING  COST (EUR)',
    '2026-03-01  =1+1     1        7      10      850    0          -           ██████████',
    '2026-03-01  llm/big  1        7      10      1,700  4          17          ████████████████████',
  ])
  const json = JSON.parse((await run('usage', 'alice-token', '--json')).out)
  t.match(json, { from: '2026-03-01T00:00:00Z', data: [{ total_tokens: 2_550, cost: '17' }] })
  const csv = await run('usage', 'alice-token', '--csv', '--by', 'model', '--model', '=1+1')
  t.equal(
    csv.out,
    'model,answers,input_tokens,output_tokens,total_tokens,cached_tokens,reasoning_tokens,' +
      "estimated_tokens,refusals_approximate,cache_write_tokens,counted_tokens\r\n'=1+1,1,7,10,850,0,0,0,0,0,850",
  )
  const none = await run('usage', 'alice-token', '--to', '2026-02-02', '--from', '2026-02-01')
  t.match(none, { status: 0, out: '', err: 'Nothing was used.' })
})

test('reads every page, and says what is missing', async (t) => {
  const { run, fill } = await start(t)
  const rows = Array.from({ length: 1_200 }, (_, i) => ({ keyId: `k${i}` }))
  await fill(rows, [{ from: today + 60_000, to: today + 120_000 }])
  const { out, err } = await run('usage', 'alice-token', '--by', 'key', '--json')
  t.equal(JSON.parse(out).data.length, 1_200)
  t.match(err, /^Some usage between 2026-03-01T00:01:00Z and 2026-03-01T00:02:00Z was lost/)
})

test('shows what is left', async (t) => {
  const { api, counters, run } = await start(t)
  const [limit] = snapshot.subscriptions.get('basic')?.limits.get('llm/small') ?? []
  if (limit === undefined) throw new Error('no limit')
  const end = shownEnd('1m', 'alice', api.now)
  t.match(
    (await run('limits', 'alice-token')).out,
    new RegExp(`^basic +llm/small +tokens +1m +1,000 +1,000 +${end} +█{20}$`, 'm'),
  )
  counters.add([counterOf(limit, 'alice')], 500, api.now)
  t.strictSame((await run('limits', 'alice-token')).out.split('\n'), [
    'SUBSCRIPTION  MODEL      OF      WINDOW  LEFT  LIMIT  RESETS',
    `basic         llm/small  tokens  1m      500   1,000  ${end}  ██████████`,
  ])
  t.match(JSON.parse((await run('limits', 'alice-token', '--json')).out), {
    data: [{ used: 500 }],
  })
  t.match((await run('limits', 'stranger-token')).err, 'You have no limits.')
  for (const [flag, value, has] of [
    ['--subscription', 'nope', 'basic'],
    ['--model', 'small', 'llm/small'],
  ] as const)
    t.match(await run('limits', 'alice-token', flag, value), {
      ...{ status: 0, out: '', err: `No limit for ${flag} ${value}; there are limits of ${has}.` },
    })
})

test('invalid arguments say where help is, and refusals their reason', async (t) => {
  const { run } = await start(t)
  for (const [command, ...args] of [
    ['usage', 'x'],
    ['usage', '--json', '--csv'],
    ['usage', '--nothing'],
    ['limits', 'x'],
  ] as const) {
    const { status, err } = await run(command, 'alice-token', ...args)
    t.equal(status, 2, args.join(' '))
    t.match(err, / See tollgate (usage|limits) --help\.$/)
  }
  t.match(await run('usage', 'alice-token', '--by', 'week'), { status: 2, err: /^--by may name/ })
  t.match(await run('usage', 'alice-token', '--by', 'day,cost-center'), {
    ...{
      status: 2,
      err: /cost_center and label:<name>, not cost-center; did you mean cost_center\?/,
    },
  })
  t.match(await run('usage', 'alice-token', '--from', 'yesterday'), {
    ...{ status: 2, err: /^--from must be a day like/ },
  })
  t.match(await run('usage', 'alice-token', '--user', 'bob'), { status: 1, err: /^Only an admin/ })
})

test('prints the charges of every page as FOCUS', async (t) => {
  const { run, fill } = await start(t)
  await fill(Array.from({ length: 1_200 }, (_, i) => ({ keyId: `k${i}`, payer: 'rate=0.5' })))
  const { status, out } = await run('usage', 'admin-token', '--focus', '--model', 'llm/small')
  t.equal(status, 0)
  const lines = out.split(/\r?\n/)
  t.equal(lines.length, 1_201)
  t.equal(lines.filter((line) => line.startsWith('BilledCost,')).length, 1)
  t.match(lines[1_200], /^8\.5,test,,EUR,/)
  t.match(await run('usage', 'alice-token', '--focus'), { status: 1, err: /^--focus is for/ })
  t.equal((await run('usage', 'admin-token', '--focus', '--csv')).status, 2)
})

test('refusals are shown as the estimate that they are', async (t) => {
  const tokens = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
  const data = [{ user: 'alice', answers: 1, ...tokens, refusals_approximate: 3 }]
  const { url } = await startAnswering(t, 200, { data, gaps: [] })
  const { out } = await runAt({ env: { TOLLGATE_URL: url, TOLLGATE_TOKEN: 'x' } }, 'usage')
  t.match(out, /^USER +ANSWERS +INPUT +OUTPUT +TOTAL +REFUSALS \(ABOUT\)\s/)
})

test('shows as many rows as there are', async (t) => {
  const row = { user: 'alice', answers: 1, input_tokens: 1, output_tokens: 1, total_tokens: 2 }
  const data = Array.from({ length: 200_000 }, () => row)
  const { url } = await startAnswering(t, 200, { data, gaps: [] })
  const shown = await runAt({ env: { TOLLGATE_URL: url, TOLLGATE_TOKEN: 'x' } }, 'usage')
  t.match({ status: shown.status, err: shown.err }, { status: 0, err: '' })
  t.equal(shown.out.split('\n').length, data.length + 1)
})

test('a label without a name is refused in words of the command', async (t) => {
  const env = { TOLLGATE_URL: 'http://127.0.0.1:1', TOLLGATE_TOKEN: 'x' }
  const { status, err } = await runAt({ env }, 'usage', '--by', 'label:')
  t.equal(status, 2)
  t.match(err, /^--by may name .*, cost_center and label:<name>, not label:\. /)
})
