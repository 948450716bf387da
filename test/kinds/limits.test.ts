import { test } from 'tap'
import { formatPath } from '../../src/formats/fields.ts'
import type { ModelRef, Resource, Subscription, Tenant } from '../../src/kinds/resources.ts'
import { parseResource } from '../../src/models/rules/reading/parse-resource.ts'
import { parseObjectResource } from '../../src/models/sources/documents.ts'
import { modelRef, resourceOf, subscription, type WrittenDocument } from '../support/documents.ts'

const rate = [[100, '1m']] as const
const ada = { users: ['ada'] }
const daily: Record<string, unknown> = { name: 'daily', of: 'cost', limit: '50', window: 'day' }

function ofTeam(spec: Record<string, unknown>, ofModels: object = {}): WrittenDocument {
  const document = subscription('team', ada, { 'llm/small': rate, 'llm/large': rate }, { ofModels })
  return { ...document, spec: { ...document.spec, ...spec } }
}

function ofTenant(spec: Record<string, unknown>): WrittenDocument {
  const metadata = { name: 'default-tenant' }
  return { apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant', metadata, spec }
}

function problemsOf(document: unknown): readonly string[] {
  const result = parseResource(document)
  if (!('problems' in result)) return []
  return result.problems.map(({ path, message }) => `${formatPath(path)} ${message}`)
}

/** The resource with the problems in spite of which it is in force. */
function inForce<Kind extends Resource>(document: unknown): Kind {
  return resourceOf(document) as Kind
}

test('limits have defaults, and amounts in whole units', async (t) => {
  const models = [{ namespace: 'llm', name: 'small' }]
  const document = ofTeam({
    limits: [
      { name: 'team', per: 'group', of: 'cost', limit: '9000000000', window: 'month' },
      { name: 'least', of: 'cost', limit: '0.000000001', window: '1h', models, enforce: false },
      { name: 'hourly', limit: 1_000_000_000_000_000, window: '2h' },
      { name: 'at-once', of: 'concurrency', limit: 1 },
    ],
  })
  t.strictSame(problemsOf(document), [])
  const all = { models: undefined, enforce: true }
  t.strictSame(inForce<Subscription>(document).limits, [
    {
      name: 'team',
      per: 'group',
      of: 'cost',
      limit: 9_000_000_000_000_000_000n,
      window: 'month',
      windowMs: 0,
      ...all,
    },
    {
      name: 'least',
      per: 'user',
      of: 'cost',
      limit: 1,
      window: '1h',
      windowMs: 3_600_000,
      models,
      enforce: false,
    },
    {
      name: 'hourly',
      per: 'user',
      of: 'tokens',
      limit: 1e15,
      window: '2h',
      windowMs: 7_200_000,
      ...all,
    },
    { name: 'at-once', per: 'user', of: 'concurrency', limit: 1, window: '', windowMs: 0, ...all },
  ])
  t.strictSame(inForce<Subscription>(ofTeam({})).limits, [])
})

test('each kind limits its own', async (t) => {
  const limit = (per: string) => ({ limits: [{ name: 'a', per, limit: 5, window: '1m' }] })
  const kinds = [
    [modelRef('small'), ['user', 'subscription', 'model']],
    [ofTeam({}), ['user', 'group', 'subscription']],
    [ofTenant({}), ['user', 'organization', 'installation']],
  ] as const
  for (const [{ spec, ...document }, own] of kinds) {
    for (const per of ['user', 'group', 'subscription', 'model', 'organization', 'installation']) {
      const isOwn = own.some((each) => each === per)
      const found = problemsOf({ ...document, spec: { ...spec, ...limit(per) } })
      const message = `spec.limits[0].per must be one of ${own.join(', ')} (${per} belongs to the limits of `
      t.ok(isOwn ? found.length === 0 : found[0]?.startsWith(message), `${document.kind} ${per}`)
    }
  }
  const limits = [{ name: 'a', limit: 5, window: '1m', models: [{ namespace: 'llm', name: 'a' }] }]
  t.match(problemsOf(modelRef('small', { limits })), [/limits\[0\]\.models is not known here/])
})

const wholeNumber = 'limit must be a whole number from 1 to 1000000000000000'
const decimal =
  'limit must be a decimal number above 0 and at most 9000000000, with at most 9 decimal places'
const quoted = ' is of cost: its limit must be a decimal number in quotes, like "500" or "0.25"'

test('a faulty limit is a problem, and what it is in is not in force', async (t) => {
  for (const [change, message] of [
    [{ name: undefined }, '.name is required'],
    [{ name: 'A' }, '.name must be a DNS label in lower case (did you mean a?)'],
    [{ limit: undefined }, '.limit is required'],
    ...[0, -1, 1.5, 1e15 + 1, Number.NaN, true].map(
      (limit) => [{ of: 'tokens', limit }, `.${wholeNumber}`] as const,
    ),
    ...[
      '0',
      '0.0',
      '-1',
      '1e3',
      '',
      ' 1',
      '1.',
      '.5',
      '05',
      '0.0000000001',
      '9000000000.1',
      '10000000000',
    ].map((limit) => [{ limit }, new RegExp(`${decimal}|must not be empty`)] as const),
    [{ limit: 50 }, quoted],
    [
      { of: 'tokens' },
      ' must have a limit that is a whole number, without quotes or separators, unless it is of cost',
    ],
    [{ of: 'money' }, /\.of must be one of tokens, input, output, requests, concurrency, cost/],
    [{ window: undefined }, ' needs a window, like 1h, day or month'],
    [{ window: null }, ' needs a window, like 1h, day or month'],
    [
      { of: 'concurrency', limit: 5 },
      ' must not have window: a limit of concurrency has no window, it counts requests in progress',
    ],
    ...['year', '1d', 'Day', '8785h', '0s'].map(
      (window) =>
        [{ window }, /\.window must be day, week or month, or 1 to 9999 and s, m or h/] as const,
    ),
    [{ enforce: 'no' }, '.enforce must be true or false'],
    [{ models: [] }, '.models needs at least 1 model'],
    [{ models: [{ namespace: 'llm' }] }, '.models[0].name is required'],
    [
      { models: [{ namespace: 'llm', name: 'smal' }] },
      '.models[0] names llm/smal, which is not among spec.modelRefs',
    ],
  ] as const) {
    const document = ofTeam({ limits: [{ ...daily, ...change }] })
    t.notOk('resource' in parseResource(document), JSON.stringify(change))
    const [found = ''] = problemsOf(document)
    if (typeof message === 'string') t.equal(found, `spec.limits[0]${message}`)
    else t.match(found, message)
  }
  t.strictSame(problemsOf(ofTeam({ limits: [daily, { ...daily, limit: '5' }] })), [
    'spec.limits[1].name "daily" is there twice',
  ])
  const many = Array.from({ length: 21 }, (_, n) => ({ ...daily, name: `a${n}` }))
  t.strictSame(problemsOf(ofTeam({ limits: many })), ['spec.limits must have at most 20 limits'])
  t.notOk('resource' in parseResource(modelRef('small', { limits: [{ ...daily, limit: '0' }] })))
})

test('a faulty limit has one problem, with what was probably meant', async (t) => {
  for (const [change, message] of [
    [{ of: 'tokens', limit: '2_000_000' }, / must have a limit .* without quotes or separators/],
    [{ limit: 1.5 }, / is of cost: its limit must be a decimal number in quotes/],
    [{ limit: '$500' }, /\.limit .*\(did you mean "500"\?\)$/],
    [{ limit: '1,000.50 USD' }, /\.limit .*\(did you mean "1000\.50"\?\)$/],
    [{ limit: '2,50' }, /decimal places$/],
    [{ limit: '0,500' }, /decimal places$/],
    [{ limit: '0' }, /decimal places$/],
    [{ limit: '9000000001' }, /decimal places$/],
    [{ limit: '$9,000,000,001' }, /decimal places$/],
    [{ models: ['llm/small'] }, /\.models\[0\] must be an object like \{ namespace: llm, name: /],
    [{ of: 'usd' }, /\.of .*\(did you mean cost\?\)$/],
    [{ name: 'Team A' }, /\.name .*\(did you mean team-a\?\)$/],
    [{ per: 'model' }, /\.per .*\(model belongs to the limits of a ModelRef\)$/],
    [{ per: 'gruop' }, /\.per .*\(did you mean group\?\)$/],
    ...[
      ['1 month', 'month'],
      ['monthly', 'month'],
      ['1M', 'month'],
      ['Day', 'day'],
      ['30d', '720h'],
      ['2 weeks', '336h'],
      ['90 min', '90m'],
    ].map(
      ([window, meant]) =>
        [{ window }, new RegExp(`\\.window .*\\(did you mean ${meant}\\?\\)$`)] as const,
    ),
    [{ window: 'year' }, /8784h$/],
  ] as const) {
    const found = problemsOf(ofTeam({ limits: [{ ...daily, ...change }] }))
    t.equal(found.length, 1, JSON.stringify([change, found]))
    t.match(found[0], message)
  }
})

test('an unknown field in a limit takes the models that it counts out of force', async (t) => {
  const models = [{ namespace: 'llm', name: 'small' }]
  const of = (limit: object) => {
    const { modelRefs, outOfForce = [] } = inForce<Subscription>(ofTeam({ limits: [daily, limit] }))
    return [modelRefs, outOfForce].map((each) => each.map(({ name }) => name))
  }
  const wrong = { name: 'hourly', limit: 5, window: '1h' }
  t.strictSame(of({ ...wrong, enforced: true, models }), [['large'], ['small']])
  t.strictSame(of({ ...wrong, enforced: true }), [[], ['small', 'large']])
  t.strictSame(of({ ...wrong, model: models }), [[], ['small', 'large']])
  const found = inForce<Subscription>(ofTeam({ limits: [{ ...daily, pre: 'group' }] })).outOfForce
  t.match(found?.[0]?.problems, [
    { path: ['spec', 'limits', 0, 'pre'], message: /did you mean per\?/ },
  ])
  const ofModel = modelRef('small', { limits: [{ ...wrong, pre: 'model' }] })
  t.notOk('resource' in parseResource(ofModel), 'a model with one is not in force at all')
})

test('limits under another name, or in another place, are not no limits', async (t) => {
  const limits = [{ name: 'hourly', limit: 5, window: '1h' }]
  for (const document of [
    ofTeam({ limit: limits }),
    ofTeam({ Limits: limits }),
    { ...ofTeam({}), limits },
    ofTeam({ owner: { ...ada, limits } }),
    modelRef('small', { limit: limits }),
  ]) {
    const [problem = ''] = problemsOf(document)
    t.match(problem, /limits? is not known here \((did you mean limits\?|it belongs to spec)\)/i)
    t.notOk('resource' in parseResource(document), problem)
  }
  for (const tenant of [ofTenant({ limit: limits }), { ...ofTenant({}), limits }]) {
    t.match(inForce<Tenant>(tenant), { limits: [], unreadable: [{}] })
  }
  t.ok('resource' in parseResource(ofTeam({ prioritty: 5 })), 'other fields are only named')
  const others = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`unknown${n}`, n]))
  const hidden = { ...ofTeam({ ...others, limts: limits }), ...others }
  t.notOk('resource' in parseResource(hidden), 'behind more unknown fields than are named')
  const { problems } = parseObjectResource(hidden)
  t.match(problems[0], { severity: 'error', message: /spec\.limts is not known here/ })
})

test('a modelRef under limits by name alone says what to write', async (t) => {
  const modelRefs = [{ namespace: 'llm', name: 'small', limits: [] }]
  const { problems } = parseObjectResource(ofTeam({ modelRefs, limits: [daily] }))
  const needed = 'spec.modelRefs[0].tokenRateLimits needs at least 1 limit'
  t.match(problems[0], {
    message: `Subscription team: ${needed} even if spec.limits has limits; for practically no limit write [{ limit: 1000000000, window: 1h }]`,
  })
  t.match(parseObjectResource(ofTeam({ modelRefs })).problems[0], {
    message: `Subscription team: ${needed}`,
  })
})

test('a misspelt calendar is not the one of UTC', async (t) => {
  const zone = { timeZone: 'Europe/Zurich' }
  for (const spec of [
    { calendar: { timezone: 'Europe/Zurich' } },
    { calendar: { ...zone, weekStart: 'sunday' } },
    { calender: zone },
    { owner: { ...ada, calendar: zone } },
  ]) {
    const document = ofTeam(spec)
    const what = JSON.stringify(spec)
    t.match(problemsOf(document), [/(cal|week|time)\w+ is not known here \((did|it belongs)/], what)
    t.notOk('resource' in parseResource(document), what)
  }
  for (const tenant of [
    ofTenant({ calendar: { timezone: 'Europe/Zurich' } }),
    ofTenant({ calender: zone }),
    { ...ofTenant({}), calendar: zone },
  ]) {
    t.match(inForce<Tenant>(tenant), { calendar: undefined, unreadable: [{}] })
  }
  const others = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`unknown${n}`, n]))
  const last = ofTeam({ ...others, calendar: { timezone: 'Europe/Zurich' } })
  t.notOk('resource' in parseResource(last), 'also after more unknown fields than are named')
  const ofModel = modelRef('small', { calendar: zone })
  t.match(problemsOf(ofModel), [/calendar is not known here/])
  t.ok('resource' in parseResource(ofModel), 'a ModelRef has none')
})

test('a Tenant whose limits are faulty opens nothing', async (t) => {
  const limit = { name: 'all', per: 'installation', of: 'cost', limit: '500', window: 'month' }
  for (const spec of [
    { limits: [{ ...limit, limit: 500 }] },
    { limits: [{ ...limit, enforced: true }] },
    { limits: {} },
    { calendar: { timeZone: 'Europe/Zürich' } },
  ]) {
    const tenant = inForce<Tenant>(ofTenant({ apiKeys: { maxExpirationDays: 5 }, ...spec }))
    t.match(tenant, { limits: [], unreadable: [{ path: ['spec', Object.keys(spec)[0]] }] })
    t.ok(problemsOf(ofTenant(spec)).length > 0)
  }
})

test('a Tenant whose spec is misspelt, misplaced or no object opens nothing', async (t) => {
  const limited = ofTenant({ limits: [{ name: 'all', limit: 5, window: 'day' }] })
  const { spec, metadata, ...rest } = limited
  const empty = { ...rest, metadata }
  for (const [tenant, path] of [
    [{ ...empty, spce: spec }, 'spce'],
    [{ ...empty, Spec: spec }, 'Spec'],
    [{ ...empty, specs: { calendar: { weekStartsOn: 'sunday' } } }, 'specs'],
    [{ ...empty, metadata: { ...metadata, spec } }, 'metadata.spec'],
    [{ ...empty, spec: [spec] }, 'spec'],
    [{ ...empty, spec: 'limits' }, 'spec'],
    [{ ...empty, spec: { tenant: [spec] } }, 'spec.tenant'],
    [{ ...rest, metadata: [metadata], spec }, 'metadata'],
    [{ ...rest, metadata: {}, spec }, 'metadata.name'],
  ] as const) {
    const { resource, problems } = parseObjectResource(tenant)
    t.match(resource, { limits: [], unreadable: [{ path: path.split('.') }] }, path)
    t.match(problems, { length: 1, 0: { severity: 'error' } }, path)
  }
  t.match(parseObjectResource({ ...empty, kind: 'Tennant', spce: spec }).resource, {
    unreadable: [{}],
  })
  const cpu = { resources: { limits: { cpu: '1' } } }
  const labelled = { ...metadata, labels: { limits: 'a' }, managedFields: [{ 'f:limits': {} }] }
  for (const tenant of [
    { ...empty, spce: { apiKeys: { maxExpirationDays: 5 } } },
    { ...empty, spec: { controller: cpu } },
    { ...empty, metadata: labelled, status: spec },
  ]) {
    t.match(inForce<Tenant>(tenant), { limits: [], unreadable: undefined })
  }
  t.notOk('resource' in parseResource(ofTeam({ shared: [spec] })), 'nor does a Subscription')
})

test('a Tenant with limits whose kind or version is wrong opens nothing', async (t) => {
  const tenant = ofTenant({ limits: [{ name: 'all', limit: 5, window: 'day' }] })
  for (const change of [
    { apiVersion: 'tollgate.dev/v1' },
    { apiVersion: 'tollgate.io/v1' },
    { apiVersion: 'tolgate.dev/v1alpha1' },
    { apiVersion: 'maas.opendatahub.com/v1alpha1' },
    { apiVersion: 'v1alpha1' },
    { kind: 'tenant' },
    { kind: 'Tennant' },
  ]) {
    const { resource, problems } = parseObjectResource({ ...tenant, ...change })
    t.match(resource, { kind: 'Tenant', unreadable: [{}] }, JSON.stringify(change))
    t.match(problems, { length: 1, 0: { severity: 'error', message: /(apiVersion|kind) must be/ } })
  }
  const foreign = { ...tenant, apiVersion: 'capsule.clastix.io/v1' }
  t.equal(parseObjectResource(foreign).resource, undefined)
})

test('limits of a Tenant by another name are said to hold for nobody', async (t) => {
  const tenant = ofTenant({ limits: [{ name: 'all', limit: 5, window: 'day' }] })
  const { resource, problems } = parseObjectResource({ ...tenant, metadata: { name: 'tenant' } })
  t.equal(resource, undefined)
  t.match(problems, [{ message: /metadata\.name must be/ }, { message: /hold for nobody/ }])
})

test('a Tenant in which something else is faulty has its limits still', async (t) => {
  const limit = { name: 'all', per: 'installation', of: 'cost', limit: '500', window: 'month' }
  const apiKeys = { maxExpirationDays: 0 }
  const tenant = inForce<Tenant>(
    ofTenant({ limits: [limit], calendar: { monthStartsOn: 5 }, apiKeys }),
  )
  t.match(tenant, { limits: [{ name: 'all' }], calendar: { monthStartsOn: 5 } })
  t.match(tenant, { unreadable: undefined, maxExpirationDays: undefined })
  t.notOk('resource' in parseResource(ofTenant({ apiKeys })), 'without limits it is as before')
  const annotated = { name: 'default-tenant', annotations: { a: 5 } }
  t.match(inForce<Tenant>({ ...ofTenant({ limits: [limit] }), metadata: annotated }), {
    limits: [{ name: 'all' }],
  })
  const elsewhere = { ...ofTenant({ limits: [limit] }), metadata: { name: 'other' } }
  t.notOk('resource' in parseResource(elsewhere), 'it is another one')
})

test('a Tenant in which something else is faulty keeps its rules for keys and metrics', async (t) => {
  const apiKeys = { maxExpirationDays: 5 }
  const telemetry = { metrics: { captureUser: false } }
  const oidc = { externalOIDC: { issuerUrl: 'nowhere' } }
  t.match(inForce<Tenant>(ofTenant({ apiKeys, telemetry, ...oidc })), {
    ...{ maxExpirationDays: 5, telemetry: { captureUser: false }, externalOidc: undefined },
    ...{ limits: [], unreadable: undefined },
  })
  const annotated = { name: 'default-tenant', annotations: { a: 5 } }
  t.match(inForce<Tenant>({ ...ofTenant({ apiKeys }), metadata: annotated }), {
    maxExpirationDays: 5,
  })
  t.match(inForce<Tenant>(ofTenant({ apiKeys, telemetry, limits: {} })), {
    ...{ maxExpirationDays: 5, telemetry: { captureUser: false }, unreadable: [{}] },
  })
  const broken = { metrics: { captureUser: 'no' } }
  t.match(inForce<Tenant>(ofTenant({ apiKeys, telemetry: broken })), {
    ...{ maxExpirationDays: 5, telemetry: undefined },
  })
  t.match(inForce<Tenant>(ofTenant({ apiKeys: { maxExpirationDays: 0 }, telemetry })), {
    ...{ maxExpirationDays: undefined, telemetry: { captureUser: false } },
  })
  const nameless = { ...ofTenant({ apiKeys, ...oidc }), metadata: {} }
  t.notOk('resource' in parseResource(nameless), 'it may be another one')
})

test('a calendar is read as far as it is written', async (t) => {
  const calendar = { timeZone: 'Australia/Lord_Howe', weekStartsOn: 'sunday', monthStartsOn: 28 }
  const read = { timeZone: 'Australia/Lord_Howe', weekStartsOn: 0, monthStartsOn: 28 }
  t.strictSame(inForce<Subscription>(ofTeam({ calendar })).calendar, read)
  t.match(inForce<Tenant>(ofTenant({ calendar: { weekStartsOn: 'saturday' } })).calendar, {
    timeZone: undefined,
    weekStartsOn: 6,
  })
  t.equal(inForce<Subscription>(ofTeam({})).calendar, undefined)
  for (const [change, message] of [
    [{ timeZone: 'Europe/Zürich' }, 'timeZone must be the IANA name of a time zone'],
    [{ timeZone: '+01:00' }, 'timeZone must be the IANA name of a time zone'],
    [{ timeZone: 'Mars/Base' }, 'timeZone is not a time zone that is known here'],
    [{ weekStartsOn: 'Monday' }, 'weekStartsOn must be one of sunday, monday'],
    [{ monthStartsOn: 29 }, 'monthStartsOn must be a whole number from 1 to 28'],
  ] as const) {
    const document = ofTeam({ calendar: { ...calendar, ...change } })
    t.match(problemsOf(document), [`spec.calendar.${message}`], JSON.stringify(change))
    t.notOk('resource' in parseResource(document))
  }
})

test('a rate needs a price for input and output', async (t) => {
  const rates = (billingRate: unknown) => {
    const document = ofTeam({}, { billingRate })
    const [first] = inForce<Subscription>(document).modelRefs
    return [first?.billingRate, problemsOf(document).length] as const
  }
  const both = { perInputToken: '3e-6', perOutputToken: '0' }
  t.strictSame(rates(both), [{ perInputToken: '0.000003', perOutputToken: '0' }, 0])
  t.strictSame(rates({ perToken: '.5', perRequest: '1' }), [
    { perToken: '0.5', perRequest: '1' },
    0,
  ])
  for (const rate of [
    { perInputToken: '1' },
    { perOutputToken: '1', perCachedToken: '1' },
    { perRequest: '1' },
    { ...both, perCacheWriteToken: '-1' },
  ]) {
    t.strictSame(rates(rate), [undefined, 2], 'one for each entry')
  }
})

test('weights are thousandths', async (t) => {
  const read = (weights: unknown) => {
    const [first] = inForce<Subscription>(ofTeam({}, { weights })).modelRefs
    return first?.weights
  }
  t.strictSame(read({ cached: 0.1, cacheWrite: 1.25, output: 4 }), {
    cached: 100,
    cacheWrite: 1_250,
    output: 4_000,
  })
  t.strictSame(read({ output: 0 }), { cached: 1_000, cacheWrite: 1_000, output: 0 })
  t.strictSame(read({ cached: 1.001, output: 0.007 }), {
    cached: 1_001,
    cacheWrite: 1_000,
    output: 7,
  })
  t.equal(read(undefined), undefined)
  for (const output of [-0.001, 100.001, 0.0005, 1.0001, '4', true, Number.NaN]) {
    const found = problemsOf(ofTeam({}, { weights: { output } }))
    t.match(
      found[0],
      /weights\.output must (be a number from 0 to 100|have at most 3 decimal places)/,
    )
  }
  t.match(
    inForce<Subscription>(ofTeam({}, { weights: { ouput: 4 } })).outOfForce,
    [{ name: 'small' }, { name: 'large' }],
    'a misspelt weight is never no weight',
  )
})

test('the limits of a model are in it', async (t) => {
  const limits = [{ name: 'minute', per: 'model', limit: 2_000_000, window: '1m' }]
  t.match(inForce<ModelRef>(modelRef('small', { limits })).limits, [
    { per: 'model', windowMs: 60_000 },
  ])
})
