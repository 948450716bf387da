import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Test, test } from 'tap'
import { findOnPath } from '../../../dev/python-wheel.ts'
import { formatPriceUnits, toPriceUnits } from '../../../src/formats/money.ts'
import { createUsageLedger } from '../../../src/usage/ledger/postgres/ledger.ts'
import { createUsageSums } from '../../../src/usage/ledger/sums.ts'
import { chargeOf, type Usage } from '../../../src/usage/rules/usage.ts'
import type { UsageRow } from '../../../src/usage/store.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { unpriced } from '../../support/unpriced.ts'

const route = 'GET /v1/usage?format=focus'
const hour = 3_600_000
/** The API's clock is at 12:00 of this day. */
const today = Date.UTC(2026, 2, 1)

/** Columns that FOCUS 1.2 requires of every dataset. */
const mandatory = [
  ...[
    'BilledCost',
    'BillingAccountId',
    'BillingAccountName',
    'BillingCurrency',
    'BillingPeriodEnd',
  ],
  ...[
    'BillingPeriodStart',
    'ChargeCategory',
    'ChargeClass',
    'ChargeDescription',
    'ChargePeriodEnd',
  ],
  ...['ChargePeriodStart', 'ContractedCost', 'EffectiveCost', 'InvoiceIssuerName', 'ListCost'],
  ...['PricingQuantity', 'PricingUnit', 'ProviderName', 'PublisherName', 'ServiceCategory'],
  'ServiceName',
]
/** And where usage is measured, and has prices by unit and resource. */
const conditional = [
  ...['ConsumedQuantity', 'ConsumedUnit', 'ContractedUnitPrice', 'ListUnitPrice'],
  ...['PricingCategory', 'ResourceId', 'ResourceType', 'SkuId', 'SkuMeter', 'SkuPriceId'],
  ...['SubAccountId', 'Tags'],
]

async function start(t: Test, rows: readonly Partial<UsageRow>[]) {
  const api = await createKeyApi(t)
  const ledger = createUsageLedger(api.sql)
  const { revision } = await ledger.open('journal')
  const sums = { answers: 1, input: 7, output: 10, cached: 3, reasoning: 4, estimated: 0 }
  const group = { hour: today, user: 'alice', subscription: 'premium', model: 'llm/small' }
  const whole = rows.map((row) => ({
    ...group,
    ...sums,
    ...{ ...unpriced, keyId: '', payer: '', total: 17 },
    ...row,
  }))
  const step = { journal: 'journal', revision, places: [], gaps: [], closes: false }
  await ledger.feed({ ...step, rows: whole })
  return api
}

/** The rows of a CSV whose cells have no line ends. */
function parse(csv: string): Record<string, string>[] {
  const [header = [], ...rows] = csv
    .trimEnd()
    .split('\r\n')
    .map((line) =>
      [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
        ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? '',
      ),
    )
  return rows.map((cells) => Object.fromEntries(header.map((name, i) => [name, cells[i] ?? ''])))
}

const payer = 'organization=acme&cost_center=42&rate=0.0000017'

test('a charge for each day, group and rate, to the last digit', async (t) => {
  const api = await start(t, [
    { payer, keyId: 'k1', total: 9_007_199_254_740_990 },
    { payer, keyId: 'k1', hour: today + hour, total: 1 },
    { payer: 'organization=acme&cost_center=42&rate=0.0000018', keyId: 'k1', total: 10 },
    { payer: 'rate=free', total: 100, user: '=1+1' },
    { payer, keyId: 'k1', hour: today - 1, total: 10 },
  ])
  const answer = await api.ask(`${route}&from=2026-02-28T15:00:00Z`, { as: 'admin' })
  t.equal(answer.headers['content-type'], 'text/csv; charset=utf-8')
  const rows = parse(answer.body)
  t.match(rows, [
    { ChargePeriodStart: '2026-02-28T00:00:00Z', BilledCost: '0.000017' },
    { BillingAccountId: 'test', BilledCost: '0.0', ListUnitPrice: '0.0', PricingQuantity: '100.0' },
    { BilledCost: '15312238733.0596847', PricingQuantity: '9007199254740991.0' },
    { BilledCost: '0.000018', ContractedUnitPrice: '0.0000018' },
  ])
  t.strictSame(
    rows.map(({ BillingPeriodStart: from, BillingPeriodEnd: to }) => [from, to]),
    [
      ['2026-02-01T00:00:00Z', '2026-03-01T00:00:00Z'],
      ...Array(3).fill(['2026-03-01T00:00:00Z', '2026-04-01T00:00:00Z']),
    ],
  )
  const [first = {}] = rows
  for (const column of [...mandatory, ...conditional]) t.ok(column in first, column)
  for (const column of Object.keys(first)) t.match(column, /^(x_)?[A-Z][A-Za-z]+$/)
  t.match(first, {
    BillingAccountId: 'acme',
    BillingCurrency: 'EUR',
    ChargePeriodEnd: '2026-03-01T00:00:00Z',
    ResourceId: 'k1',
    SubAccountId: '42',
    SkuPriceId: 'premium/llm/small',
    Tags: '{"user":"alice","subscription":"premium","cost_center":"42"}',
    x_ReasoningTokens: '4',
  })
})

/** Each response is rounded up: 30 nano-units for the first, 4 for the second, 50,001 for the third. */
function pricedRows(): readonly UsageRow[] {
  const prices = 'token=0.0000000015&cached=0.0000000002&output=0.0000000035&request=0'
  const usage = {
    ...{ user: 'alice', subscription: 'premium', model: 'llm/small', status: 200, bytes: 0 },
    ...{ keyId: 'k1', payer: 'organization=acme&cost_center=42&rate=0.0000000015', prices },
  }
  const reporting = (fields: object, more: Partial<Usage> = {}): Usage => {
    return { ...usage, reported: new Map(Object.entries(fields)), ...more }
  }
  const sums = createUsageSums()
  const details = { details_cached_tokens: 4, details_cache_write_tokens: 2 }
  const add = (used: Usage) => sums.add(used, chargeOf(used, 'allow'), today)
  add(reporting({ prompt_tokens: 10, completion_tokens: 5, ...details }))
  add(reporting({ total_tokens: 1 }))
  const dear = { prices: 'token=0.0000000001&request=0.00005' }
  add(reporting({ prompt_tokens: 1, completion_tokens: 0 }, dear))
  return sums.drain()
}

test('kinds of tokens are charges of their own, and all add up to what was charged', async (t) => {
  const api = await start(t, [...pricedRows(), { payer, total: 10 }])
  const { body } = await api.ask(route, { as: 'admin' })
  const rows = parse(body)
  t.strictSame(
    rows.map(({ ChargeCategory, SkuMeter, PricingQuantity, ListUnitPrice, BilledCost }) =>
      [ChargeCategory, SkuMeter, PricingQuantity, ListUnitPrice, BilledCost].join(' '),
    ),
    [
      'Usage Tokens 10.0 0.0000017 0.000017',
      'Usage Requests 1.0 0.00005 0.00005',
      'Usage Input tokens 1.0 0.0000000001 0.0000000001',
      'Adjustment    0.0000000009',
      'Usage Requests 2.0 0.0 0.0',
      'Usage Input tokens 4.0 0.0000000015 0.000000006',
      'Usage Cached tokens 4.0 0.0000000002 0.0000000008',
      'Usage Cache write tokens 2.0 0.0000000015 0.000000003',
      'Usage Output tokens 6.0 0.0000000035 0.000000021',
      'Adjustment    0.0000000012',
    ],
  )
  const billed = rows.reduce((sum, { BilledCost = '' }) => sum + toPriceUnits(BilledCost), 0n)
  t.equal(formatPriceUnits(billed), '0.000067033', 'and 17,000 by the rule of earlier rows')
  const page = (await api.ask('GET /v1/usage', { as: 'admin' })).json()
  t.match(page.data, [{ cost: '0.000067033', cache_write_tokens: 2 }])
  const [, first = {}, , adjustment = {}] = rows
  for (const column of ['ConsumedQuantity', 'ConsumedUnit', 'PricingUnit', 'PricingCategory']) {
    t.equal(adjustment[column], '', column)
  }
  t.match(adjustment, { SkuId: '', SkuPriceId: '', ResourceId: 'k1', x_Answers: '' })
  t.match(first, { SkuId: 'llm/small/request', x_Answers: '1', x_Model: 'llm/small' })
  t.equal(
    rows.reduce((sum, { x_Answers }) => sum + Number(x_Answers), 0),
    4,
  )
})

test('capped sums are no negative charge', async (t) => {
  const most = Number.MAX_SAFE_INTEGER
  const absurd = { total: most, pricedInput: most, pricedCached: most, weight: -most }
  const row = { ...absurd, prices: 'token=0.000000001', cost: 1 }
  const api = await start(t, [row, { ...row, keyId: 'k1' }])
  const rows = parse((await api.ask(route, { as: 'admin' })).body)
  t.same(
    [...new Set(rows.map(({ SkuMeter }) => SkuMeter))],
    ['Requests', 'Input tokens', 'Cached tokens', ''],
  )
  const page = (await api.ask('GET /v1/usage', { as: 'admin' })).json()
  t.match(page.data, [{ total_tokens: most, counted_tokens: 0 }])
})

test('requests that were refused are no charge', async (t) => {
  const api = await start(t, [])
  const group = { hour: today, user: 'alice', subscription: 'premium', model: 'llm/small' }
  await createUsageLedger(api.sql).addRefusals([{ ...group, keyId: '', payer, refusals: 3 }])
  t.strictSame(parse((await api.ask(route, { as: 'admin' })).body), [])
})

test('pages continue, and a name is no formula', async (t) => {
  const rows = Array.from({ length: 1_200 }, (_, i) => ({ keyId: `k${i}`, payer }))
  const api = await start(t, [...rows, { payer: 'organization=@acme', user: 'x' }])
  const first = await api.ask(route, { as: 'admin' })
  const [, next = ''] = /^<\?(.*)>; rel="next"$/.exec(String(first.headers.link)) ?? []
  const second = await api.ask(`GET /v1/usage?${next}`, { as: 'admin' })
  const all = [...parse(first.body), ...parse(second.body)]
  t.equal(new Set(all.map(({ ResourceId }) => ResourceId)).size, 1_201)
  t.match(all.at(-1), { BillingAccountId: "'@acme" })
  t.notOk(second.headers.link)
})

test('administrators only, and no other groups (400, 403)', async (t) => {
  const api = await start(t, [])
  for (const query of ['', '&user=alice']) {
    const answer = await api.ask(`${route}${query}`, { as: 'alice' })
    refused(t, answer, 403)
    t.match(answer.json().error.message, /^format=focus is for administrators/)
  }
  const own = await api.ask(`${route}&user=admin`, { as: 'admin' })
  t.equal(own.statusCode, 200)
  const { key } = await api.createKey('admin')
  refused(t, await api.ask(route, { as: key }), 403)
  const grouped = await api.ask(`${route}&group_by=model`, { as: 'admin' })
  refused(t, grouped, 400)
  t.match(grouped.json().error.message, /^group_by has no meaning with format=focus/)
})

const validator = findOnPath('focus-validator', process.env)
// Its own bounds on what it needs are too wide for it to start.
const skip =
  validator === undefined &&
  "no focus-validator: pip install focus-validator==1.0.0 multimethod==1.10 'sqlalchemy<2'"

/** What it finds wrong in every file that follows the published FOCUS 1.0 and 1.2. */
const faultsOfValidator = [
  // It looks for its list of currencies in the working directory.
  'BillingCurrency_IsCurrencyCode',
  // Their published names are InvoiceIssuerName, ProviderName, PublisherName and ResourceId.
  ...['InvoiceIssuer_Required', 'Provider_Required', 'Publisher_Required', 'ResourceID_Required'],
  // It asks for the column ChargeType, which is ChargeCategory.
  'SkuPriceId_Nullable',
]

test('the validator knows FOCUS 1.0, and has no other complaint', { skip }, async (t) => {
  const api = await start(t, [
    { payer: 'organization=acme&cost_center=research&rate=0.0000017', keyId: 'k1' },
    { user: 'bob', keyId: '0f8fad5b' },
    { payer: 'rate=1', total: 0 },
    ...pricedRows(),
  ])
  const answer = await api.ask(route, { as: 'admin' })
  const run = promisify(execFile)
  const validate = async (csv: string) => {
    const file = join(temporaryFolder(t), 'charges.csv')
    writeFileSync(file, csv)
    const args = ['--data-file', file, '--validate-version', '1.0']
    const { stdout } = await run(validator ?? '', args).catch((error: { stdout: string }) => error)
    t.match(stdout, /^Validation (failed|succeeded)/m)
    return [...stdout.matchAll(/^(\w+) failed:/gm)].map(([, rule]) => rule).sort()
  }
  t.strictSame(await validate(answer.body), faultsOfValidator)
  const wrong = await validate(answer.body.replace('BilledCost', 'Cost'))
  t.ok(wrong.includes('BilledCost_Required'), 'it does find a mistake')
})
