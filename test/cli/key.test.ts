import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import http, { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { runAt, type Terminal } from '../support/command.ts'
import { createKeyApi } from '../support/key-api.ts'
import { startAnswering, startScripted } from '../support/list-api.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Runs the command; returns its output and exit status. */
async function run(env: NodeJS.ProcessEnv, ...args: string[]) {
  const { status, out, err } = await runKey({}, env, ...args)
  return { status, out, err }
}

/** The same with a person at the terminal, or with standard input. */
const runKey = (at: Omit<Terminal, 'env'>, env: NodeJS.ProcessEnv, ...args: string[]) =>
  runAt({ ...at, env }, 'key', ...args)

/** A real API on a free port, and the environment for calling it as alice. */
async function start(t: Test) {
  const api = await createKeyApi(t)
  api.now = Date.now()
  const url = await api.external.listen({ host: '127.0.0.1', port: 0 })
  return { api, url, env: { TOLLGATE_URL: `${url}/`, TOLLGATE_TOKEN: 'alice-token' } }
}

test('prints only the new key to stdout', async (t) => {
  const { api, env } = await start(t)
  const made = await run(env, 'new', 'my laptop', '--expires', '1h', '--description', 'blue')
  t.equal(made.status, 0)
  t.match(made.out, /^sk-tg-\w+$/)
  t.match(made.err, /^Made the key "my laptop" \([-0-9a-f]{36}\) for premium, good until 2/)
  t.equal((await api.ask('POST /v1/api-keys/search', { as: made.out })).statusCode, 200)

  const json = await run(env, 'new', '--ephemeral', '--subscription', 'basic', '--json')
  t.match(JSON.parse(json.out), { key: /^sk-/, name: /^ephemeral-/, subscription: 'basic' })
})

test('labels are given and searched', async (t) => {
  const { env } = await start(t)
  await run(env, 'new', 'one', '--label', 'team=search', '--label', 'stage=a=b')
  await run(env, 'new', 'two', '--label', 'team=search')
  const list = async (...labels: string[]) =>
    JSON.parse((await run(env, 'list', '--json', '--sort', 'name:asc', ...labels)).out).data
  t.match(await list('--label', 'team=search'), [
    { name: 'one', labels: { team: 'search', stage: 'a=b' } },
    { name: 'two' },
  ])
  t.match(await list('--label', 'team=search', '--label', 'stage=a=b'), [{ name: 'one' }])
  t.equal((await run(env, 'list', '--label', 'team')).status, 2)
})

test('caps and labels are given, shown, narrowed and dropped', async (t) => {
  const { env } = await start(t)
  const given = ['--label', 'team=search', '--model', 'llm/small', '--token-limit', '500/1m']
  const limits = ['--token-limit', '9000/24h', '--address', '192.0.2.0/24']
  const daily = 'name=daily,of=cost,limit=5.5,window=day,model=llm/small'
  const watched = 'name=at-once,of=concurrency,limit=2,enforce=false'
  const named = ['--limit', daily, '--limit', 'limit=2,name=at-once,enforce=false,of=concurrency']
  const made = await run(env, 'new', 'capped', '--json', ...given, ...limits, ...named)
  t.equal(made.status, 0, made.err)
  const { id } = JSON.parse(made.out)
  const show = async () => (await run(env, 'show', id)).out.split('\n').map((row) => row.trim())
  for (const row of [
    'NAME          capped',
    'LABEL         team=search',
    'MODEL         llm/small',
    'TOKEN LIMIT   500/1m',
    'TOKEN LIMIT   9000/24h',
    `LIMIT         ${daily}`,
    `LIMIT         ${watched}`,
    'ADDRESS       192.0.2.0/24',
  ]) {
    t.ok((await show()).includes(row), row)
  }
  const edited = await run(
    env,
    ...['edit', id, '--name', 'narrower', '--token-limit', '400/1m', '--token-limit', '9000/24h'],
    ...['--no-labels', '--json'],
  )
  t.match(JSON.parse(edited.out), {
    name: 'narrower',
    tokenRateLimits: [
      { limit: 400, window: '1m' },
      { limit: 9_000, window: '24h' },
    ],
    models: [{ namespace: 'llm', name: 'small' }],
  })
  t.notOk((await show()).includes('LABEL         team=search'))
  const widened = await run(env, 'edit', id, '--no-models')
  t.match(widened, { status: 1, err: /models/ })
  t.match(await run(env, 'edit', id, '--limit', daily), { status: 1, err: /keep "at-once"/ })
  t.match(await run(env, 'edit', id, '--limit', 'name=a,limit=1,window=year'), {
    status: 1,
    err: /^window in the first --limit must be day, week or month/,
  })
  const text = await run(env, 'edit', id, '--limit', 'name=a,of=cost,limit=$5,window=day')
  t.match(text, { status: 2, err: /^limit=\$5: write a limit as / })
  const admin = { ...env, TOLLGATE_TOKEN: 'admin-token' }
  t.equal(
    (
      await run(
        admin,
        ...['edit', id, '--no-models', '--no-token-limits', '--no-limits', '--no-addresses'],
      )
    ).status,
    0,
  )
  t.notOk((await show()).some((row) => /^(MODEL|TOKEN LIMIT|LIMIT|ADDRESS) /.test(row)))
  const renamed = await run(env, 'edit', id, '--name', 'renamed', '--label', 'team=other')
  t.match(renamed, { status: 0, out: /^NAME +renamed$/m, err: '' }, 'a change without caps')
  for (const args of [
    ['edit', id],
    ['edit', '--name', 'x'],
    ['show'],
    ['show', id, id],
    ['edit', id, '--token-limit', '400'],
    ['edit', id, '--limit', '5/day'],
    ['edit', id, '--limit', 'name=a,window=day'],
    ['edit', id, '--limit', 'name=a,limit=five,window=day'],
    ['edit', id, '--limit', 'name=a,limit=1,limit=2,window=day'],
    ['edit', id, '--limit', 'name=a,limit=1,window=day,per=user'],
    ['edit', id, '--limit', 'name=a,limit=1,window=day,enforce=no'],
    ['edit', id, '--limit', 'name=a,limit=1,window=day,model=small'],
    ['edit', id, '--model', 'small'],
    ['new', 'x', '--no-models'],
    ['new', 'x', '--label', 'team=a', '--label', 'team=b'],
    ['list', '--label', 'team=a', '--label', 'team=b'],
    ['list', '--prefix', ''],
    ['edit', id, '--model', 'llm/small', '--no-models'],
    ['edit', id, '--label', 'team=a', '--no-labels'],
    ['edit', id, '--token-limit', '400/1h', '--no-token-limits'],
    ['edit', id, '--limit', 'name=a,limit=1,window=day', '--no-limits'],
    ['edit', id, '--address', '192.0.2.1', '--no-addresses'],
  ]) {
    t.equal((await run(env, ...args)).status, 2, args.join(' '))
  }
})

test('a lost answer to new and rotate makes one key, and its secret works', async (t) => {
  const { api, url, env } = await start(t)
  let lose = 1
  const flaky = await startScripted(t, (request, response) => {
    const { method, headers } = request
    const forwarded = http.request(`${url}${request.url}`, { method, headers }, (answer) => {
      lose -= 1
      if (lose === 0) {
        answer.resume()
        answer.on('end', () => response.destroy())
        return
      }
      response.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(response)
    })
    request.pipe(forwarded)
  })
  const through = { ...env, TOLLGATE_URL: flaky.url }
  const works = async (as: string) =>
    (await api.ask('GET /v1/subscriptions', { as })).statusCode === 200
  const made = await run(through, 'new', 'laptop', '--json')
  t.equal(made.status, 0, made.err)
  const { id, key } = JSON.parse(made.out)
  t.ok(await works(key))
  t.equal((await api.sql`select from api_keys`).length, 1)

  lose = 1
  const rotated = await run(through, 'rotate', id, '--overlap', '1h')
  t.equal(rotated.status, 0, rotated.err)
  t.ok((await works(key)) && (await works(rotated.out)), 'the old secret in its overlap too')
  t.equal(flaky.asked.length, 4)
  t.equal(new Set(flaky.asked.map(({ headers }) => headers['idempotency-key'])).size, 2)

  const refused = await startAnswering(t, 400, { error: { message: 'No.' } })
  t.match(await run({ ...env, TOLLGATE_URL: refused.url }, 'new', 'x'), { status: 1, err: 'No.' })
  t.equal(refused.asked.length, 1, 'a refusal is not repeated')
})

test('a change whose response is lost says that it may have been made', async (t) => {
  const unsure = /The request may or may not have been carried out\.$/
  const { api, env } = await start(t)
  const { id } = await api.createKey('alice')
  let end: (response: http.ServerResponse) => void = () => {}
  const server = await startScripted(t, (_request, response) => end(response))
  const through = { ...env, TOLLGATE_URL: server.url }
  for (const [how, ends, status] of [
    ['no response', (response) => response.destroy(), 3],
    ['half of one', endHalf, 1],
    ['a page', (response) => response.writeHead(200).end('<html>'), 1],
    ['a proxy', (response) => response.writeHead(504).end('<html>'), 1],
    ['Envoy', (response) => response.writeHead(503).end(JSON.stringify({ error: away })), 1],
  ] as const satisfies [string, (response: http.ServerResponse) => unknown, number][]) {
    end = ends
    for (const args of [
      ['edit', id, '--name', 'x'],
      ['revoke', id],
      ['revoke', '--all', '--yes'],
    ])
      t.match(await run(through, ...args), { status, out: '', err: unsure }, `${how}: ${args[0]}`)
    const list = await run(through, 'list')
    t.match(list, { status }, how)
    t.notMatch(list.err, unsure, 'a list changes nothing')
  }
  const locked = { message: 'Locked.', code: 'store_locked' }
  end = (response) => response.writeHead(503).end(JSON.stringify({ error: locked }))
  t.match(await run(through, 'edit', id, '--name', 'x'), { status: 1, err: 'Locked.' })
  const late = JSON.stringify({ error: { message: 'Too many.', code: 'too_many_requests' } })
  end = (response) => {
    end = (again) => again.writeHead(429).end(late)
    response.destroy()
  }
  t.match(await run(through, 'new', 'x'), { status: 1, err: unsure }, 'an earlier attempt')
  end = ({ socket }) => {
    ;(socket as Socket & { server: http.Server }).server.close()
    socket?.destroy()
  }
  const ended = {
    status: 3,
    err: /cannot be reached \(ECONNREFUSED\)\. The request may or may not/,
  }
  t.match(await run(through, 'new', 'x'), ended, 'an earlier attempt before the end')
})

/** Destroys the connection, which Node would otherwise keep for its keep-alive timeout of five seconds. */
function endHalf(response: http.ServerResponse): void {
  const head = { 'content-type': 'application/json', 'content-length': '500' }
  response.writeHead(200, head).write('{"id":', () => response.destroy())
}

/** As Envoy responds if no process does. */
const away = { message: 'The server behind this path is not available.', code: 'unavailable' }

test('rotates a key, with and without an overlap', async (t) => {
  const { api, env } = await start(t)
  const { id, key } = await api.createKey('alice')
  const works = async (as: string) =>
    (await api.ask('GET /v1/subscriptions', { as })).statusCode === 200
  const first = await run(env, 'rotate', id, '--overlap', '24h', '--end-old-after-first-use', '1h')
  t.match(first, { status: 0, out: /^sk-tg-\w+$/, err: /The old secret works until 2/ })
  t.ok((await works(key)) && (await works(first.out)))
  const second = await run(env, 'rotate', id)
  t.match(second, { status: 0, err: /The old secret has ended/ })
  t.notOk((await works(first.out)) || (await works(key)))
  t.ok(await works(second.out))
  t.match(await run(env, 'rotate', id, '--overlap', 'x'), { status: 1, err: /^--overlap must be/ })
  t.equal((await run(env, 'rotate')).status, 2)
})

test('lists keys in a table', async (t) => {
  const { api, env } = await start(t)
  const first = await api.createKey('alice', { name: 'first' })
  const evil = await api.createKey('alice', { name: 'evil' })
  const name = `\u001b[31m\u202e${'x'.repeat(60)}`
  await api.sql`update api_keys set name = ${name} where id = ${evil.id}`
  const gone = await api.createKey('alice', { name: 'gone' })
  await api.createKey('alice', { ephemeral: true, name: 'short' })
  await api.ask(`DELETE /v1/api-keys/${gone.id}`, { as: 'alice' })

  const listed = await run(env, 'list', '--sort', 'name:desc')
  const lines = listed.out.split('\n')
  t.equal(listed.status, 0)
  t.match(
    lines[0],
    /^ID {36}KEY {11}NAME {38}SUBSCRIPTION {2}STATUS {2}CREATED {12}EXPIRES {12}LAST USED$/,
  )
  t.equal(lines.length, 3)
  t.match(
    lines[2],
    new RegExp(`^${evil.id}  ${evil.key.slice(0, 12)}  \ufffd\\[31m\ufffdx{33}…  premium`),
  )
  t.match(
    lines[1],
    new RegExp(
      `^${first.id}  ${first.key.slice(0, 12)}  first +premium +active +\\S+ \\S+Z +\\S+ \\S+Z +-$`,
    ),
  )

  const all = await run(env, 'list', '--all', '--json')
  t.equal(JSON.parse(all.out).data.length, 4)
  const revoked = await run(env, 'list', '--status', 'revoked,expired', '--json')
  t.match(JSON.parse(revoked.out).data, [{ id: gone.id }])
  const none = await run({ ...env, TOLLGATE_TOKEN: 'bob-token' }, 'list')
  t.match(none, { status: 0, out: '', err: 'There are no such keys.' })
  const admin = await run({ ...env, TOLLGATE_TOKEN: 'admin-token' }, 'list', '--user', 'alice')
  t.equal(admin.out.split('\n').length, 3)
})

test('lists keys of all pages', async (t) => {
  const { api, env } = await start(t)
  for (let i = 0; i < 103; i += 1) await api.createKey('alice', { name: `key ${i}` })
  await api.createKey('bob')
  const all = JSON.parse((await run(env, 'list', '--json')).out).data
  t.equal(new Set(all.map(({ id }: { id: string }) => id)).size, 103)
  const limited = JSON.parse((await run(env, 'list', '--limit', '101', '--json')).out).data
  t.equal(limited.length, 101)
  const admin = await run({ ...env, TOLLGATE_TOKEN: 'admin-token' }, 'list')
  t.match(admin.out, / USER\n/)
  t.match(admin.out, / bob$/m)
})

test('revokes keys by id', async (t) => {
  const { api, env } = await start(t)
  const one = await api.createKey('alice', { name: 'one' })
  const two = await api.createKey('alice', { name: 'two' })
  const done = await run(env, 'revoke', one.id)
  t.strictSame(done, { status: 0, out: `Revoked ${one.id} (one).`, err: '' })
  const partly = await run(env, 'revoke', one.id, '../x', two.id, '--json')
  t.equal(partly.status, 1)
  t.match(JSON.parse(partly.out).data, [{ id: two.id, status: 'revoked' }])
  t.equal(
    partly.err,
    `${one.id}: This API key is revoked already.\n../x: There is no such API key.`,
  )
})

test('names the process that has not confirmed a revocation', async (t) => {
  const { api, url, env } = await start(t)
  const one = await api.createKey('alice', { name: 'one' })
  const propagation = { state: 'pending', replicas: 2, acknowledged: 1, waitingFor: ['far-away'] }
  const server = createServer(async (request, response) => {
    const answer = await fetch(url + request.url, {
      method: request.method ?? '',
      headers: { authorization: request.headers.authorization ?? '' },
    })
    response.end(JSON.stringify({ ...((await answer.json()) as object), propagation }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const through = { ...env, TOLLGATE_URL: `http://127.0.0.1:${port}` }
  for (const args of [[one.id], ['--all', '--yes']]) {
    const { status, err } = await run(through, 'revoke', ...args)
    t.strictSame([status, err.split(':')[0]], [0, 'Not confirmed by far-away'])
  }
})

test('revokes a key given on stdin, and never prints it', async (t) => {
  const { api, env } = await start(t)
  const bobs = { ...env, TOLLGATE_TOKEN: 'bob-token' }
  const { key: leaked, id } = await api.createKey('alice')
  for (const input of ['', 'no key', `${leaked} ${leaked}`]) {
    t.match(await runKey({ input }, bobs, 'revoke', '-'), { status: 1, err: /one whole key/ })
  }
  const done = await runKey({ input: `${leaked}\n` }, bobs, 'revoke', '-')
  t.match(done, { status: 0, out: `Revoked ${id}` })
  t.notOk(`${done.out}${done.err}${api.logged()}`.includes(leaked.slice(14)))
  const again = await runKey({ input: leaked }, bobs, 'revoke', '-')
  t.match(again, { status: 1, err: 'There is no such API key.' })
  t.notOk(again.err.includes(leaked.slice(14)))
})

test('asks before it revokes the keys of a user', async (t) => {
  const { api, env } = await start(t)
  await api.createKey('bob')
  await api.createKey('bob', { ephemeral: true })
  const admin = { ...env, TOLLGATE_TOKEN: 'admin-token' }
  const revoke = (answer?: string, ...more: string[]) =>
    runKey({ answer }, admin, 'revoke', '--user', 'bob', ...more)
  t.match(await revoke(), { status: 1, err: /--yes/, asked: [/all 2 active keys of bob/] })
  t.match(await revoke('n'), { status: 1, out: '' })
  t.match(await revoke('y'), { status: 0, out: /Revoked 2 API keys of user bob/ })
  t.match(await revoke('y'), { status: 0, err: /no active key/, asked: [] })
  await api.createKey('bob')
  t.match(await revoke(undefined, '--yes'), { status: 0, out: /Revoked 1 API key/, asked: [] })
  t.match(await run(env, 'revoke', '--user', 'bob'), { status: 1, err: /administrator/ })
})

test('finds a key by its prefix', async (t) => {
  const { api, env } = await start(t)
  const { key, id } = await api.createKey('alice')
  await api.createKey('alice')
  for (const prefix of [key.slice(0, 12), key]) {
    const found = await run(env, 'list', '--prefix', prefix, '--json')
    t.match(JSON.parse(found.out).data, [{ id, keyPrefix: key.slice(0, 12) }])
    t.equal(JSON.parse(found.out).data.length, 1)
  }
  t.match(await run(env, 'list', '--prefix', 'sk-tg'), { status: 1, err: /like sk-tg-/ })
  t.notOk(api.logged().includes(key.slice(14)))
})

test('revokes all keys of a user', async (t) => {
  const { api, env } = await start(t)
  await api.createKey('alice')
  await api.createKey('alice', { ephemeral: true })
  await api.createKey('bob')
  const refused = await runKey({ answer: 'n' }, env, 'revoke', '--all')
  t.match(refused, { status: 1, out: '', asked: [/all of your active keys/] })
  t.match(await run(env, 'revoke', '--all'), { status: 0, out: /2.*alice/ }, 'no terminal')
  const admin = { ...env, TOLLGATE_TOKEN: 'admin-token' }
  const bobs = await run(admin, 'revoke', '--all', '--user', 'bob', '--yes', '--json')
  t.match(JSON.parse(bobs.out), { revokedCount: 1 })
  t.match(await run(env, 'revoke', '--all', '--user', 'bob'), { status: 1, err: /administrator/ })
})

test('prints the API’s error message', async (t) => {
  const { env } = await start(t)
  t.match(await run(env, 'new', 'x', '--expires', '91d'), { status: 1, out: '', err: /90 days\.$/ })
  t.match(await run(env, 'new', 'x', '--subscription', 'b-only'), { status: 1, err: /No subscr/ })
  t.match(await run({ ...env, TOLLGATE_TOKEN: 'x' }, 'list'), {
    status: 1,
    err: /^The credential .* The credential is from TOLLGATE_TOKEN\.$/,
  })
})

test('handles responses of other servers', async (t) => {
  const env = (url: string) => ({ TOLLGATE_URL: url, TOLLGATE_TOKEN: 'x' })
  const html = await startAnswering(t, 502, '<html>')
  t.match(await run(env(html.url), 'list'), { status: 1, err: /answered 502 without a reason\.$/ })
  const other = await startAnswering(t, 200, { hello: 'world' })
  t.match(await run(env(other.url), 'new', 'x'), { status: 1, out: '', err: /without a key/ })
  t.match(await run(env(other.url), 'rotate', 'x'), { status: 1, out: '', err: /without a key/ })
  for (const args of [['list'], ['show', 'x'], ['revoke', 'x'], ['revoke', '--all', '--yes']]) {
    const answered = await run(env(other.url), ...args)
    t.match(
      answered,
      { status: 1, out: '', err: /does not answer like a Tollgate\.$/ },
      args.join(' '),
    )
  }
  const evil = await startAnswering(t, 403, { error: { message: '\u001b[2Jno' } })
  t.equal((await run(env(evil.url), 'list')).err, '\ufffd[2Jno')
  const target = await startAnswering(t, 200, {})
  const moved = await startScripted(t, (_request, response) => {
    response.writeHead(307, { location: target.url }).end()
  })
  t.match(await run(env(moved.url), 'list'), { status: 1, err: /answered 307/ })
  t.equal(target.asked.length, 0)
  for (const args of [['list'], ['revoke', 'x', 'y'], ['revoke', '--all']]) {
    const away = await run(env('http://127.0.0.1:1'), ...args)
    t.match(away, { status: 3, err: /cannot be reached/ }, args.join(' '))
  }
})

test('invalid arguments are one sentence, which says where help is', async (t) => {
  const env = { TOLLGATE_TOKEN: 'x' }
  for (const [args, message] of [
    [[], /^key needs one of new, list, show, edit, rotate, revoke\. See tollgate key --help\.$/],
    [['mint'], /^There is no command "key mint"\./],
    [['lst'], /^There is no command "key lst"; did you mean key list\? See tollgate key --help\.$/],
    [['new'], /^Give the key a name\. See tollgate key new --help\.$/],
    [['new', 'a', 'b'], /^There is no place for "b"; put a value with spaces in quotes\./],
    [['new', 'a', '--colour'], /^There is no flag "--colour" of key new\./],
    [
      ['new', 'a', '--subscripton', 'x'],
      /; did you mean --subscription\? See tollgate key new --help/,
    ],
    [['new', 'a', '--expires'], /^--expires needs a value, <duration>\./],
    [['new', 'a', '--expires', '--json'], /^--expires needs a value, .*"--json" is another flag/],
    [['new', 'a', '--expires', ' '], /^--expires needs a value, <duration>, and is empty\./],
    [['revoke', '--user', '', '--yes'], /^--user needs a value, <name>, and is empty\./],
    [['show', ''], /^<id> is empty\./],
    [['revoke', 'x', ''], /^<id> is empty\./],
    [['new', 'a', '--json=yes'], /^--json takes no value\./],
    [['list', 'x'], /^There is no place for "x"/],
    [['list', '--status', 'activ'], /^--status cannot be "activ"; did you mean active\?/],
    [
      ['list', '--status', 'odd'],
      /^--status cannot be "odd"; it is one of active, revoked, expired\./,
    ],
    [['list', '--sort', 'age'], /^--sort must be one of/],
    [['list', '--sort', 'name:up'], /^--sort must be one of/],
    [['list', '--limit', '0'], /^--limit must be/],
    [['revoke'], /^Name the ids/],
    [['revoke', '--all', 'x'], /^Either --all/],
    [['revoke', 'x', '--user', 'bob'], /^Either --user/],
    [['revoke', '-', 'x'], /^Either - or/],
  ] as const) {
    const { status, out, err } = await run(env, ...args)
    t.equal(status, 2, args.join(' '))
    t.equal(out, '')
    t.match(err, message)
    t.match(err, / See tollgate key.* --help\.$/)
    t.equal(err.split('\n').length, 1)
  }
  t.match(await run(env, 'list', '--help'), { status: 0, out: /^Usage: tollgate key list/ })
})

test('does not send a token in the clear', async (t) => {
  const env = { TOLLGATE_TOKEN: 'x' }
  for (const url of [
    'http://gateway.invalid',
    'http://10.0.0.1:8000',
    'http://127.0.0.1.invalid',
  ]) {
    t.match(await run(env, 'list', '--url', url), { status: 1, err: /in the clear/ })
  }
  const allowed = await run(env, 'list', '--url', 'http://0.0.0.0:1', '--insecure-http')
  t.match(allowed, { status: 3, err: /cannot be reached/ })
  for (const url of ['gateway', 'ftp://x', 'http://a:b@localhost', 'http://localhost?x']) {
    t.match(await run(env, 'list', '--url', url), { status: 2, err: /address/ })
  }
})

test('reads URL and token from the environment', async (t) => {
  const { url, env } = await start(t)
  const file = join(temporaryFolder(t), 'token')
  writeFileSync(file, 'bob-token\n')
  const subscriptionOf = async (from: NodeJS.ProcessEnv, ...flags: string[]) => {
    const { out, err } = await run(from, 'new', 'x', '--json', ...flags)
    return out === '' ? err : JSON.parse(out).subscription
  }
  t.equal(await subscriptionOf(env), 'premium')
  t.equal(await subscriptionOf({ ...env, TOLLGATE_TOKEN: 'bob-token' }), 'b-only')
  t.equal(await subscriptionOf({ TOLLGATE_URL: url, TOLLGATE_TOKEN_FILE: file }), 'b-only')
  t.equal(
    await subscriptionOf({ ...env, TOLLGATE_URL: 'http://127.0.0.1:1' }, '--url', url),
    'premium',
  )
  for (const base of [`${url}/v1`, `${url}/v1/`]) {
    t.equal(await subscriptionOf({ ...env, TOLLGATE_URL: base }), 'premium', 'as OpenAI needs it')
  }
  t.match(await subscriptionOf({ TOLLGATE_URL: url }), /no credential for .*: run tollgate login/)
  const missing = { TOLLGATE_URL: url, TOLLGATE_TOKEN_FILE: `${file}.missing` }
  t.match(await subscriptionOf(missing), /token file .*missing cannot be read/)
  writeFileSync(file, '\n')
  t.match(
    await subscriptionOf({ TOLLGATE_URL: url, TOLLGATE_TOKEN_FILE: file }),
    /token file .* is empty/,
  )
})
