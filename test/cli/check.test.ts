import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { runAt } from '../support/command.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { runTollgate } from '../support/tollgate.ts'

const team = { groups: ['team'] }
const good = [
  modelRef('small', { backendUrl: 'http://127.0.0.1:1' }),
  accessPolicy('open', ['llm/small'], team),
  subscription('one', team, { 'llm/small': [[100, '1m']] }),
]

/** Runs `tollgate check` on these files; returns its output and exit status. */
async function check(
  t: Test,
  files: Record<string, readonly object[] | string>,
  env: Readonly<Record<string, string>> = {},
  flags: readonly string[] = [],
) {
  const folder = temporaryFolder(t)
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(folder, name, '..'), { recursive: true })
    const text =
      typeof content === 'string'
        ? content
        : content.map((one) => JSON.stringify(one)).join('\n---\n')
    writeFileSync(join(folder, name), text)
  }
  const tollgate = runTollgate(t, ['check', folder, ...flags], env)
  const status = await tollgate.ended
  return { status, output: tollgate.output() }
}

test('lists valid resources with their phase', async (t) => {
  const { status, output } = await check(t, { 'all.yaml': good })
  t.equal(status, 0)
  t.match(output, /^ModelRef +llm\/small +Ready$/m)
  t.match(output, /^Subscription +models-as-a-service\/one +Active$/m)
  t.match(output, /^ModelAuthPolicy +llm\/maas-auth-small +Accepted$/m)
  t.match(output, /^TokenRateLimitPolicy +llm\/maas-trlp-small +Accepted$/m)
  t.match(output, '3 resources, 0 problems')
})

test('prints the bound of each limit that reserves', async (t) => {
  const { output } = await check(t, { 'all.yaml': good })
  t.notMatch(output, 'MOST BEYOND')
  const more = { admission: { mode: 'reserve', overshootPercent: 10 } }
  const reserving = subscription('two', team, { 'llm/small': [[995, '1m']] }, more)
  const bounded = await check(t, { 'all.yaml': [...good, reserving] })
  t.equal(bounded.status, 0)
  t.match(bounded.output, /^RESERVES +MODEL +WINDOW +LIMIT +MOST BEYOND$/m)
  t.match(bounded.output, /^two +llm\/small +1m +995 +99$/m)
  const unruly = { output: { honoursMaxTokens: false } }
  const free = modelRef('free', { backendUrl: 'http://127.0.0.1:1', ...unruly })
  const three = subscription('three', team, { 'llm/free': [[995, '1m']] }, more)
  const unbound = await check(t, { 'all.yaml': [...good, free, three] })
  t.match(unbound.output, /^three +llm\/free +1m +995 +no bound$/m)
  const byDefault = { ADMISSION_MODE: 'reserve' }
  const { output: others } = await check(t, { 'all.yaml': good }, byDefault)
  t.match(others, /^one +llm\/small +1m +100 +25$/m)
})

test('says what limits by name close, what passes them, and which begin anew', async (t) => {
  const rated = { billingRate: { perToken: '0.000001' } }
  const limited = (limits: readonly object[], calendar = {}) => {
    const document = subscription('paid', team, { 'llm/small': [[100, '1m']] }, { ofModels: rated })
    return { ...document, spec: { ...document.spec, limits, calendar } }
  }
  const month = { name: 'month', per: 'subscription', of: 'cost', limit: '500', window: 'month' }
  const day = { name: 'day', of: 'cost', limit: '0.5', window: 'day' }
  const before = temporaryFolder(t)
  const old = [...good, limited([month, day])]
  writeFileSync(join(before, 'a.yaml'), old.map((one) => JSON.stringify(one)).join('\n---\n'))
  const capacity = { name: 'all', per: 'model', limit: 2_000_000, window: '1m' }
  const slots = { name: 'slots', per: 'model', of: 'concurrency', limit: 7 }
  const limits = [{ ...day, name: 'daily' }, month]
  const unpriced = subscription('free', team, { 'llm/small': [[5, '1m']] })
  const tenant = {
    ...{
      apiVersion: 'tollgate.dev/v1alpha1',
      kind: 'Tenant',
      metadata: { name: 'default-tenant' },
    },
    spec: { limits: [{ ...month, per: 'user', models: [{ namespace: 'llm', name: 'smal' }] }] },
  }
  const { status, output } = await check(
    t,
    {
      'a.yaml': [
        modelRef('small', { backendUrl: 'http://127.0.0.1:1', limits: [capacity, slots] }),
        ...good.slice(1),
        limited(limits, { timeZone: 'Europe/Zurich' }),
        { ...unpriced, spec: { ...unpriced.spec, limits: [day] } },
      ],
      'b.yaml': [tenant],
    },
    {},
    ['--in-force', before],
  )
  t.equal(status, 1)
  t.match(
    output,
    /^a\.yaml:\d+: warning: .*free: spec\.modelRefs\[0\] needs a billingRate under the limit day on cost, so/m,
  )
  t.match(
    output,
    /^b\.yaml:1: warning: .*limits\[0\]\.models\[0\] names the model llm\/smal, which does not/m,
  )
  t.match(
    output,
    /^ModelRef\/llm\/small all +tokens +model +1m +2000000 +what 7 requests in progress use: one does not reserve, paid /m,
  )
  t.match(
    output,
    /^paid daily +cost +user +day +0\.5 +what 7 requests in progress use: paid does not reserve$/m,
  )
  t.match(output, /^advice: Subscription\/\S+\/free: each user has a limit day of their own; per:/m)
  t.match(output, /^advice: Subscription\/\S+\/free counts by the calendar of UTC \(day\); spec/m)
  t.match(output, /^advice: Tenant\/\S+ counts by the calendar of UTC \(month\); spec/m)
  t.notMatch(output, /paid counts by/, 'it names a zone')
  t.match(
    output,
    /^advice: Subscription paid: the limit month begins new counters, because it was cost per subscription in month1@UTC and is cost per subscription in month1@Europe\/Zurich$/m,
  )
})

test('says once, at its line, why a price closes a model, and names limits', async (t) => {
  const unlimited = subscription('c', team, { 'llm/small': [[5, '1m']] })
  const { output } = await check(t, {
    'a.yaml': good,
    'b.yaml': `apiVersion: tollgate.dev/v1alpha1
kind: Subscription
metadata: {name: paid}
spec:
  owner: {groups: [{name: team}]}
  modelRefs:
    - namespace: llm
      name: small
      tokenRateLimits: [{limit: 5, window: 1m}]
      billingRate:
        perInputToken: 0.000003
        perOutputToken: "0.000015"
  limits:
    - {name: month, of: cost, limit: "500", window: month}
`,
    'c.yaml': [
      { limits: [{ name: 'slow', limit: 5, window: '30d' }] },
      { limits: [{ name: 'odd', limit: 5, window: '1h', enforced: true }] },
    ].map((spec, n) => ({
      ...unlimited,
      metadata: { name: `c${n}` },
      spec: { ...unlimited.spec, ...spec },
    })),
  })
  t.match(
    output,
    /: Subscription c0: spec\.limits\[0\]\.window \(limit slow\) must be .*720h\?\)$/m,
  )
  t.match(output, /^Subscription +models-as-a-service\/c0 +not read +see c\.yaml:1$/m)
  t.match(output, /: Subscription c1: spec\.limits\[0\]\.enforced \(limit odd\) is not known here/m)
  const lines = output.split('\n').filter((line) => line.startsWith('b.yaml'))
  t.match(lines, [
    /^b\.yaml:11: warning: Subscription paid: spec\.modelRefs\[0\]\.billingRate\.perInputToken must be a string, .* quotes, and the limit month is on cost, so the entry of llm\/small is not in force$/,
  ])
  t.equal(lines.length, 1)
})

test('reports each problem with file and line', async (t) => {
  const { status, output } = await check(t, {
    'a.yaml': good,
    'b/again.yaml': [modelRef('small', {})],
    'c.yaml': '# a comment\nkind: [\n',
    'd.yaml': [subscription('two', team, { 'llm/small': [[5, '0m']], 'llm/gone': [[5, '1m']] })],
    'e.yaml': [subscription('three', team, { 'llm/small': [[5, '1m']], 'llm/gone': [[5, '1m']] })],
  })
  t.equal(status, 1)
  t.match(output, /^b\/again\.yaml:1: error: ModelRef\/llm\/small is defined at a\.yaml:1 already/m)
  t.match(output, /^c\.yaml:\d: error: not valid YAML/m)
  t.match(output, /^d\.yaml:1: error: Subscription two: .*window must be/m)
  t.match(output, /^e\.yaml:1: warning: .*llm\/gone, which does not exist/m)
  t.match(
    output,
    /^Subscription +models-as-a-service\/three +Degraded +spec\.modelRefs\[1\] names the model llm\/gone, which/m,
  )
  t.match(output, /^Subscription +models-as-a-service\/two +not read +see d\.yaml:1$/m)
  t.match(output, '4 resources and 1 not read, 4 problems')
  t.match(output, /^TokenRateLimitPolicy +llm\/maas-trlp-small +NotAccepted +Subscription two /m)
})

test('says of a model that is not there why, or which one was probably meant', async (t) => {
  const pays = (name: string, model: string) => subscription(name, team, { [model]: [[5, '1m']] })
  const { output } = await check(t, {
    'a.yaml': good,
    'b.yaml': [modelRef('broken', { backendUrl: 'nowhere' })],
    'c.yaml': [pays('near', 'llm/smal'), pays('far', 'other/small'), pays('shut', 'llm/broken')],
  })
  t.match(
    output,
    /: Subscription near: .* llm\/smal, which does not exist \(did you mean llm\/small\?\)$/m,
  )
  t.match(output, /: Subscription far: .* does not exist \(did you mean llm\/small\?\)$/m)
  t.match(output, /: Subscription shut: .* llm\/broken, which is not in force: see b\.yaml:1$/m)
  t.match(
    output,
    /^Subscription +models-as-a-service\/shut +Failed +.*broken, which is not in force$/m,
  )
  t.match(output, /^ModelRef +llm\/broken +not read +see b\.yaml:1$/m)
})

test('reports unknown fields, and why a model is Pending', async (t) => {
  const [small, open, one] = good
  const entry = { namespace: 'llm', name: 'small', tokenRateLimits: [{ limit: 5, window: '1m' }] }
  const unserved = modelRef('unserved', { backendUrl: undefined, backendURL: 'http://127.0.0.1:1' })
  const { status, output } = await check(t, {
    'a.yaml': [small, open, one, unserved] as object[],
    'b.yaml': `apiVersion: tollgate.dev/v1alpha1
kind: Subscription
metadata: {name: misspelt}
spec:
  owner: {groups: [{name: team}]}
  modelRefs:
    - ${JSON.stringify(entry)}
    - namespace: llm
      name: unserved
      tokenRateLimits: [{limit: 5, window: 1m}]
      concurency: 3
`,
  })
  t.equal(status, 1)
  t.match(
    output,
    /^a\.yaml:7: warning: ModelRef unserved: spec\.backendURL is not known here \(did you mean backendUrl\?\)$/m,
  )
  t.match(
    output,
    /^b\.yaml:\d+: warning: Subscription misspelt: spec\.modelRefs\[1\]\.concurency .*so the entry of llm\/unserved is not in force$/m,
  )
  t.match(
    output,
    /^ModelRef +llm\/unserved +Pending +spec\.backendUrl is not set, so nothing serves the model$/m,
  )
  t.match(
    output,
    /^Subscription +models-as-a-service\/misspelt +Degraded +spec\.modelRefs\[1\]\.concurency /m,
  )
  t.match(
    output,
    /^TokenRateLimitPolicy +llm\/maas-trlp-unserved +NotAccepted +Subscription misspelt has an unknown field/m,
  )
  const broken = await check(t, {
    'a.yaml': [
      ...[small, open],
      {
        ...(one as object),
        spec: {
          owner: { groups: [{ name: 'team' }] },
          modelRefs: [
            { namespace: 'llm', name: 'small', tokenRateLimit: [{ limit: 5, window: '1m' }] },
            { ...entry, name: 'other', concurency: 3 },
          ],
        },
      },
    ] as object[],
  })
  t.match(broken.output, /modelRefs\[0\]\.tokenRateLimit is .*\(did you mean tokenRateLimits\?\)$/m)
  t.match(broken.output, /modelRefs\[1\]\.concurency is .*\(did you mean concurrency\?\)$/m)
  t.notMatch(broken.output, 'advice: no Subscription names', 'the one that does is broken')
})

test('checks the named folder, whatever RESOURCES_FILE names', async (t) => {
  const file = join(temporaryFolder(t), 'resources')
  writeFileSync(file, 'kubernetes')
  const { status, err } = await runAt(
    { env: { RESOURCES_FILE: file } },
    'check',
    join(packageRoot, 'examples', 'resources'),
  )
  t.match({ status, err }, { status: 0, err: '' })
})

test('judges where models are, by the settings of the environment', async (t) => {
  const at = (backendUrl: string) => ({ 'a.yaml': [modelRef('small', { backendUrl })] })
  const ours = await check(t, at('http://127.0.0.1:8081'))
  t.equal(ours.status, 1)
  t.match(ours.output, /INTERNAL_ADDRESS/)
  const other = { INTERNAL_ADDRESS: '127.0.0.1:9081' }
  t.equal((await check(t, at('http://127.0.0.1:8081'), other)).status, 0)
  t.match((await check(t, at('http://169.254.169.254'))).output, /MODEL_ADDRESSES_ALLOWED/)
})

test('advice is not a problem', async (t) => {
  const users = Array.from({ length: 501 }, (_, i) => `user-${i}`)
  const { status, output } = await check(t, {
    'a.yaml': [
      ...good,
      accessPolicy('many', ['llm/small'], { users }),
      subscription('two', team, { 'llm/small': [[100, '1m']] }),
    ],
  })
  t.equal(status, 0)
  t.match(output, 'advice: AccessPolicy/models-as-a-service/many names 501 users')
  t.match(output, 'advice: priority 0 is shared by 2 Subscriptions: one, two')
})

test('advises against a Subscription without an owner', async (t) => {
  const lonely = subscription('lonely', {}, { 'llm/small': [[100, '1m']] })
  const { status, output } = await check(t, { 'a.yaml': [...good, lonely] })
  t.equal(status, 0)
  t.match(
    output,
    /^advice: Subscription\/models-as-a-service\/lonely has no owner: nobody can create keys/m,
  )
  t.notMatch(output, /\/one has no owner/)
})

test('reports a missing folder, a file, and a folder without resources', async (t) => {
  const empty = await check(t, { 'a.txt': 'nothing' })
  t.match(empty, {
    status: 1,
    output: /has no resources; they are in files that end in \.yaml, \.yml or \.json/,
  })
  const file = runTollgate(t, ['check', join(packageRoot, 'package.json')], {})
  t.equal(await file.ended, 1)
  t.match(file.output(), /package\.json is a file; name a folder of YAML files/)
  const tollgate = runTollgate(t, ['check', '/nowhere'], {})
  t.equal(await tollgate.ended, 1)
  t.match(tollgate.output(), '/nowhere cannot be read')
  const nothing = runTollgate(t, ['check'], {})
  t.equal(await nothing.ended, 2)
})

test('a model that a Subscription names again is advised against', async (t) => {
  const entry = { namespace: 'llm', name: 'small', tokenRateLimits: [{ limit: 5, window: '1m' }] }
  const twice = subscription('twice', team, {}, { spec: { modelRefs: [entry, entry] } })
  const { status, output } = await check(t, { 'a.yaml': [...good.slice(0, 2), twice] })
  t.equal(status, 0)
  t.match(
    output,
    /^advice: Subscription\/\S+\/twice names the model llm\/small again; only its first/m,
  )
})

test('gives advice about model servers', async (t) => {
  const twice = modelRef('twice', { backendUrl: 'http://127.0.0.1:1/v1/' })
  const whole = modelRef('whole', { backendUrl: 'http://127.0.0.1:1/api/v1/chat/completions' })
  const wide = modelRef('wide', { backendUrl: 'http://127.0.0.1:1', paths: 'all' })
  const { status, output } = await check(t, { 'a.yaml': [...good, twice, whole, wide] })
  t.equal(status, 0)
  t.match(output, /^advice: ModelRef\/llm\/twice has a backendUrl that ends in \/v1/m)
  t.match(output, /^advice: ModelRef\/llm\/whole .* leave \/v1\/chat\/completions out, because/m)
  t.match(output, /^advice: ModelRef\/llm\/wide opens all paths/m)
})

test('advises about models that no key can call', async (t) => {
  const closed = modelRef('closed', { backendUrl: 'http://127.0.0.1:1' })
  const unpaid = modelRef('unpaid', { backendUrl: 'http://127.0.0.1:1' })
  const policy = accessPolicy('more', ['llm/unpaid'], team)
  const { status, output } = await check(t, { 'a.yaml': [...good, closed, unpaid, policy] })
  t.equal(status, 0)
  const advice = output.split('\n').filter((line) => line.startsWith('advice: no '))
  t.strictSame(advice, [
    'advice: no AccessPolicy names ModelRef/llm/closed: nobody may use it',
    'advice: no Subscription names ModelRef/llm/closed: no key can be used for it',
    'advice: no Subscription names ModelRef/llm/unpaid: no key can be used for it',
  ])
})
