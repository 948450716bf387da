import { type Test, test } from 'tap'
import { runAt } from '../support/command.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'
import { createKeyApi } from '../support/key-api.ts'

const day = { window: 'day', limit: 100 }
const snapshot = snapshotOf(
  modelRef('small', { limits: [{ ...day, name: 'fair', per: 'model' }] }),
  accessPolicy('open', ['llm/small'], { groups: ['team-a'] }),
  subscription(
    'basic',
    { groups: ['team-a'] },
    { 'llm/small': [[1_000, '1m']] },
    {
      ofModels: { billingRate: { perToken: '0.01' } },
      named: [
        { ...day, name: 'own' },
        { ...day, name: 'money', of: 'cost', limit: '50', per: 'group' },
      ],
    },
  ),
)

async function start(t: Test) {
  const api = await createKeyApi(t, { snapshot })
  const url = await api.external.listen({ host: '127.0.0.1', port: 0 })
  const as = (user: string) => {
    const env = { TOLLGATE_URL: url, TOLLGATE_TOKEN: `${user}-token` }
    return (...args: string[]) => runAt({ env }, ...args)
  }
  return { api, as }
}

const until = '2026-03-02T12:00:00Z'
const own = ['--limit', 'own', '--subscription', 'basic', '--user', 'alice']
const more = ['--to', '300', '--until', until, '--reason', 'a deadline']

test('an administrator grants increases, lists and ends them', async (t) => {
  const { api, as } = await start(t)
  const run = as('admin')
  t.match(await run('increases'), { status: 0, out: '', err: 'No limit is increased.' })
  const made = await run('increases', 'grant', ...own, ...more)
  t.match(made, { status: 0, err: 'alice has no active key; if that is a surprise, end' })
  const [, id = ''] =
    /^Increased own to 300 until 2026-03-02T12:00:00Z \((.+)\)\.$/.exec(made.out) ?? []
  const { id: key } = await api.createKey('alice', { limits: [{ ...day, name: 'daily' }] })
  t.match(await run('increases', 'grant', '--limit', 'daily', '--key', key, ...more), { status: 0 })
  const again = await run('increases', 'grant', ...own, ...more, '--to', '200')
  t.match(again, { status: 0, err: /^$/ }, 'now alice has one')
  const [, second = ''] = /\((.+)\)\.$/.exec(again.out) ?? []
  t.match(await run('increases', 'end', second), { status: 0 })
  const pool = ['--limit', 'money', '--subscription', 'basic', '--whom', 'team-a', '--to', '60.50']
  const paid = await run('increases', 'grant', ...pool, ...more.slice(2), '--json')
  t.match(JSON.parse(paid.out), { limit: '60.5', propagation: { state: 'confirmed' } })
  const fair = ['--limit', 'fair', '--model', 'llm/small', ...more]
  t.match(await run('increases', 'grant', ...fair), { status: 0 })
  const listed = (await run('increases')).out.split('\n').map((line) => line.split(/ {2,}/))
  t.strictSame(listed[0], ['ID', 'LIMIT', 'OF', 'FOR', 'KIND', 'TO', 'UNTIL', 'REASON', 'BY'])
  const end = [until, 'a deadline', 'admin']
  t.strictSame(
    listed
      .slice(1)
      .map(([, ...cells]) => cells)
      .sort(),
    [
      ['daily', `key ${key}`, 'alice', 'tokens', '300', ...end],
      ['fair', 'llm/small', 'all of the model', 'tokens', '300', ...end],
      ['money', 'basic', 'group team-a', 'cost', '60.5 EUR', ...end],
      ['own', 'basic', 'alice', 'tokens', '300', ...end],
    ],
  )
  const json = JSON.parse((await run('increases', '--json')).out)
  t.equal(json.data.length, 4)
  t.match((await as('alice')('limits')).out, / own .* until 2026-03-02T12:00:00Z /)
  const asked = await as('alice')('explain', 'llm/small')
  t.match(asked.out, / INCREASED\n/)

  const ended = await run('increases', 'end', id)
  t.match(ended, { status: 0, out: `Ended own to 300 until ${until} (${id}).` })
  t.match(await run('increases', 'end', id), {
    status: 1,
    err: /^There is no such increase, or it is over/,
  })
})

test('what is wrong with an increase is said in the words of the command', async (t) => {
  const { as } = await start(t)
  const run = as('admin')
  const wrong: readonly (readonly [readonly string[], number, RegExp])[] = [
    [[], 2, /^Give --limit, --to, --until and --reason\./],
    [[...own, ...more, '--to', '3e5'], 2, /^--to must be a whole number, or an amount/],
    [[...own, ...more, '--until', 'later'], 2, /^--until must be a day like .* like 3d\. See/],
    [[...own, ...more, '--until', '93d'], 1, /^--until must be within 92 days/],
    [[...own, ...more, '--to', '100'], 1, /^--to must be above that of the resource, 100/],
    [[...own, ...more, '--to', '300.5'], 1, /^--to must be an integer/],
    [[...own, ...more, '--key', 'x'], 1, /^--user: --key says whose limit it is/],
    [[...own.slice(0, 4), ...more], 1, /^--user is needed/],
    [[...own, ...more, '--user', 'admin'], 1, /^Nobody increases their own limit/],
  ]
  for (const [args, status, err] of wrong)
    t.match(await run('increases', 'grant', ...args), { status, err }, args.join(' '))
  t.match(await as('alice')('increases'), { status: 1, err: /administrator/ })
})

test('a user asks for more of a limit', async (t) => {
  const { as } = await start(t)
  const alice = as('alice')
  const mine = ['--limit', 'own', '--subscription', 'basic']
  const made = await alice('limit-requests', 'new', ...mine, ...more)
  t.match(made, { status: 0, out: /^Asked for own up to 300 until 2026-03-02T12:00:00Z \(.+\)\.$/ })
  const pool = ['--limit', 'money', '--subscription', 'basic', '--to', '60', ...more.slice(2)]
  const paid = await alice('limit-requests', 'new', ...pool, '--json')
  t.match(JSON.parse(paid.out), { limit: '60', whom: 'team-a', state: 'open' })
  t.match((await alice('limit-requests')).out, / open +own +basic +alice +tokens +300 /)
  const wrong: readonly (readonly [readonly string[], number, RegExp])[] = [
    [mine, 2, /^Give --limit, --to, --until and --reason\./],
    [
      [...mine.slice(0, 2), ...more],
      1,
      /^You have no limit of this name there; .* Without a subscription or a model, the limit is looked up in the installation/,
    ],
    [[...mine, ...more, '--to', '100'], 1, /^--to must be above/],
    [[...mine, ...more, '--user', 'bob'], 2, /--user/],
  ]
  for (const [args, status, err] of wrong)
    t.match(await alice('limit-requests', 'new', ...args), { status, err }, args.join(' '))
})

test('requests for more are listed, approved and denied', async (t) => {
  const { api, as } = await start(t)
  const [run, alice] = [as('admin'), as('alice')]
  const ask = async (limit: number, name = 'own') => {
    const body = { name, subscription: 'basic', limit, until, reason: 'a deadline' }
    return (await api.ask('POST /v1/limit-requests', { as: 'alice', body })).json().id
  }
  t.match(await run('limit-requests', '--all'), { status: 0, err: 'No request is open.' })
  t.match(await alice('limit-requests'), {
    ...{ status: 0, err: /^You have no requests\. tollgate limit-requests new asks/ },
  })
  const [first, second] = [await ask(300), await ask(400)]
  const { out } = await run('limit-requests', '--all')
  t.match(out, /^ID +STATE +LIMIT +OF +FOR +KIND +TO +UNTIL +REASON\n/)
  t.match(out, / open +own +basic +alice +tokens +400 +2026-03-02T12:00:00Z +a deadline/)
  const less = ['--to', '200', '--until', '2026-03-02']
  t.match(await run('limit-requests', 'approve', first, ...less), {
    ...{ status: 0, err: '' },
    out: 'alice has own up to 200 until 2026-03-02T00:00:00Z.',
  })
  t.match(await run('limit-requests', 'deny', second, '--reason', 'not now'), {
    ...{ status: 0, out: 'Denied alice more of own.' },
  })
  t.match(await run('limit-requests', 'approve', second), { status: 1, err: /was denied before/ })
  const shown = (await alice('limit-requests')).out
  t.match(
    shown,
    / approved +own +basic +alice +tokens +200 +2026-03-02T00:00:00Z +a deadline +admin/,
  )
  t.match(shown, / denied .* admin +not now/)
  t.equal(JSON.parse((await alice('limit-requests', '--json')).out).data.length, 2)
  const approve = await run('limit-requests', 'approve', await ask(80, 'money'), '--to', '60')
  t.match(approve, { status: 0, out: /^group team-a has money up to 60 EUR until/ })
  const pool = ['--limit', 'money', '--subscription', 'basic', '--whom', 'team-a']
  const granted = await run('increases', 'grant', ...pool, '--to', '9000000000', ...more.slice(2))
  t.match(granted, { status: 0, out: /^Increased money to 9000000000 EUR until/ })
  const tooMuch = await run('increases', 'grant', ...pool, '--to', '9000000001', ...more.slice(2))
  t.match(tooMuch, { status: 1, err: /^--to must be an amount of cost such as 60/ })
  t.match(await alice('limit-requests', '--all'), { status: 1, err: /^--all is for administrator/ })
})
