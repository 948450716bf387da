import { chmodSync, existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { runAt, type Terminal } from '../support/command.ts'
import { createKeyApi } from '../support/key-api.ts'
import { startScripted } from '../support/list-api.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { skipUnnamedUser, tollgateUnnamed } from '../support/unnamed-user.ts'

async function start(t: Test) {
  const api = await createKeyApi(t)
  const url = await api.external.listen({ host: '127.0.0.1', port: 0 })
  const home = temporaryFolder(t)
  const env = { XDG_CONFIG_HOME: home }
  const file = join(home, 'tollgate', 'login.json')
  const run = (at: Omit<Terminal, 'env'>, ...args: string[]) => runAt({ ...at, env }, ...args)
  return { api, url, env, file, run }
}

test('keeps address and credential, for their owner alone', async (t) => {
  const { url, file, run } = await start(t)
  const done = await run({ input: 'alice-token\n' }, 'login', url)
  t.match(done, {
    status: 0,
    out: `${url} is now the default gateway, as alice. The credential is saved in ${file}.`,
  })
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.equal(statSync(join(file, '..')).mode & 0o777, 0o700)
  t.notOk(`${done.out}${done.err}`.includes('alice-token'))
  t.match(await run({}, 'key', 'new', 'laptop'), { status: 0, out: /^sk-/ })

  chmodSync(file, 0o644)
  t.match(await run({}, 'key', 'list'), { status: 1, err: /^Others may read .*chmod 600/ })
  const json = await run({ input: 'bob-token' }, 'login', url, '--json')
  t.match(json, { status: 1, err: /^Others may read/ }, 'not overwritten in silence either')
  chmodSync(file, 0o600)
  writeFileSync(file, 'x')
  t.match(await run({}, 'key', 'list'), { status: 1, err: /run tollgate logout/ })
  t.match(await run({}, 'logout'), { status: 0 })
  t.notOk(existsSync(file))
})

test('keeps nothing that the gateway refuses', async (t) => {
  const { url, file, run } = await start(t)
  t.match(await run({ input: 'nonsense' }, 'login', url), { status: 1, err: /^The credential/ })
  t.match(await run({ input: '\n' }, 'login', url), { status: 1, err: 'No token was given.' })
  t.match(await run({ input: 'two words' }, 'login', url), { status: 1, err: /spaces/ })
  t.match(await run({ input: 'x' }, 'login', 'http://127.0.0.1:1'), { status: 3 })
  t.match(await run({ input: 'x' }, 'login', 'http://gateway.invalid'), {
    status: 1,
    err: /in the clear/,
  })
  t.notOk(existsSync(file))
})

test('what is kept is sent to its address only', async (t) => {
  const { url, env, run } = await start(t)
  await run({ input: 'alice-token' }, 'login', url)
  const other = await startScripted(t, (_request, response) => response.end('{}'))
  t.match(await run({}, 'key', 'list', '--url', other.url), {
    status: 1,
    err: /no credential for http:\S+: run tollgate login/,
  })
  t.match(await runAt({ env: { ...env, TOLLGATE_URL: other.url } }, 'key', 'list'), { status: 1 })
  t.equal(other.asked.length, 0)
  const given = { ...env, TOLLGATE_TOKEN: 'bob-token' }
  const made = await runAt({ env: given }, 'key', 'new', 'x', '--json')
  t.match(JSON.parse(made.out), { subscription: 'b-only' }, 'a variable goes first')
})

test('a place without logins is no error, unless it is to be written', async (t) => {
  const { url, run } = await start(t)
  await run({ input: 'alice-token' }, 'login', url)
  const given = { TOLLGATE_URL: url, TOLLGATE_TOKEN: 'alice-token' }
  const list = (env: NodeJS.ProcessEnv) => runAt({ env }, 'key', 'list')
  const nowhere = { XDG_CONFIG_HOME: '/dev/null' }
  t.match(await list({ ...given, ...nowhere }), { status: 0 })
  t.match(await list({ TOLLGATE_URL: url, ...nowhere }), { status: 1, err: /no credential/ })
  t.match(await runAt({ env: nowhere, input: 'alice-token' }, 'login', url), {
    ...{ status: 1, err: '/dev/null/tollgate/login.json cannot be written (ENOTDIR).' },
  })
  for (const home of ['/proc/nowhere', '/dev/null', '/proc/self']) {
    const nobody = { HOME: home, XDG_CONFIG_HOME: '' }
    const err = `${home}/.config/tollgate/login.json cannot be written (`
    t.match(await runAt({ env: nobody, input: 'alice-token' }, 'login', url), { status: 1, err })
    t.match(await runAt({ env: nobody }, 'logout'), { status: 0 }, `${home} has none`)
  }
  const looped = join(temporaryFolder(t), 'tollgate')
  symlinkSync(looped, looped)
  const unreadable = { XDG_CONFIG_HOME: join(looped, '..') }
  t.match(await list({ ...given, ...unreadable }), { status: 0 }, 'not read without need')
  t.match(await list({ TOLLGATE_URL: url, ...unreadable }), {
    ...{ status: 1, err: `${looped}/login.json cannot be read (ELOOP).` },
  })
})

test('several gateways are kept, and forgotten one by one', async (t) => {
  const { api, url, file, run } = await start(t)
  const second = url.replace('127.0.0.1', 'localhost')
  await run({ input: 'alice-token' }, 'login', url)
  await run({ input: 'bob-token' }, 'login', second)
  t.match(JSON.parse(readFileSync(file, 'utf8')), {
    current: second,
    tokens: { [url]: 'alice-token', [second]: 'bob-token' },
  })
  t.match(await run({}, 'logout', 'https://nothing.example'), { status: 1, err: /No credential/ })
  t.match(await run({}, 'logout', second), { status: 0 })
  t.match(await run({}, 'key', 'list'), { status: 1 }, 'no other gateway takes its place')
  t.match(await run({}, 'key', 'list', '--url', url), { status: 0 })
  t.ok(api.external.server.listening)
})

test('a user without a home has no login', { skip: skipUnnamedUser }, (t) => {
  const list = tollgateUnnamed(['key', 'list', '--url', 'http://127.0.0.1:1'], {})
  t.match(list, { status: 1, stderr: /TOLLGATE_TOKEN|tollgate login/ })
  const { status, stderr } = tollgateUnnamed(['logout'], {})
  t.match({ status, stderr }, { status: 0, stderr: '' })
  t.end()
})
