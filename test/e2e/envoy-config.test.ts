import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { type RequestOptions, request } from 'node:https'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { requestAdmin } from '../../src/gateway/admin-page.ts'
import { serve } from '../../src/main.ts'
import { noOpenssl, selfSigned } from '../support/certificates.ts'
import { runAt } from '../support/command.ts'
import { createDatabase } from '../support/database.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { freePorts } from '../support/free-ports.ts'
import { chatPath, models, subscriptions } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { startReplicas } from '../support/replicas.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const skip = envoyPath() === undefined ? 'no Envoy' : noOpenssl

/** Runs the command with these settings; returns its output. */
async function print(env: Record<string, string>, ...args: string[]): Promise<string> {
  const settings = { ENVOY_PATH: envoyPath(), ...env }
  const { status, out, err } = await runAt({ env: settings }, 'envoy-config', ...args)
  if (status !== 0) throw new Error(err)
  return out
}

/** All settings, for addresses on which nothing needs to listen. */
function fullSettings(folder: string): Record<string, string> {
  mkdirSync(join(folder, 'tls'))
  selfSigned(join(folder, 'tls'), 'DNS:localhost,IP:127.0.0.1')
  return {
    GATEWAY_ADDRESS: '0.0.0.0:8443',
    GATEWAY_TLS_CERT_FILE: join(folder, 'tls', 'cert.pem'),
    GATEWAY_TLS_KEY_FILE: join(folder, 'tls', 'key.pem'),
    GATEWAY_TRUSTED_HOPS: '1',
    GATEWAY_GRPC_ENDPOINTS: '127.0.0.1:8082,127.0.0.1:8182,unix:/run/tollgate/grpc.sock',
    GATEWAY_API_ENDPOINTS: '127.0.0.1:8080,127.0.0.1:8180',
    ENVOY_ADMIN_ADDRESS: `unix:${join(folder, 'admin.sock')}`,
    USAGE_JOURNAL: join(folder, 'journal', 'usage.jsonl'),
    DATA_DIR: join(folder, 'data'),
  }
}

t.test('reports invalid settings', async (t) => {
  const folder = temporaryFolder(t)
  const cases: [Record<string, string>, RegExp][] = [
    [{ GATEWAY_TLS_CERT_FILE: '/none' }, /GATEWAY_TLS_KEY_FILE: has to be set/],
    [{ GATEWAY_TLS_KEY_FILE: '/none' }, /GATEWAY_TLS_CERT_FILE: has to be set/],
    [{ GATEWAY_TLS_CERT_FILE: '/none', GATEWAY_TLS_KEY_FILE: '/none' }, /ENOENT/],
    [{ GATEWAY_GRPC_ENDPOINTS: 'x' }, /GATEWAY_GRPC_ENDPOINTS: must be/],
    [{ GRPC_ADDRESS: '127.0.0.1:0' }, /name the ports/],
    [{ GATEWAY_TRUSTED_HOPS: '-1' }, /GATEWAY_TRUSTED_HOPS: must be/],
  ]
  for (const [env, message] of cases) {
    await t.rejects(print({ DATA_DIR: folder, ...env }), { message })
  }
  t.equal((await runAt({}, 'envoy-config', '--write', '--validate')).status, 2)
  for (const [name, settings] of [
    ['DATA_DIR', { DATA_DIR: '/dev/null/data' }],
    ['ENVOY_CONFIG_DIR', { DATA_DIR: temporaryFolder(t), ENVOY_CONFIG_DIR: '/dev/null/envoy' }],
  ] as const) {
    const { status, err } = await runAt({ env: settings }, 'envoy-config', '--write')
    t.match({ status, err }, { status: 1, err: `${name}: /dev/null/` })
    t.match(err, 'cannot be written to (ENOTDIR)')
  }
})

t.test('Envoy accepts the output, and no file is left', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const env = fullSettings(folder)
  t.match(await print(env, '--validate'), /accepts it/)
  t.notOk(existsSync(join(folder, 'journal')), 'no journal is created')
  t.notOk(existsSync(join(folder, 'data')))
  const bootstrap = JSON.parse(await print(env))
  const { path } = bootstrap.dynamic_resources.cds_config.path_config_source
  t.equal(path, join(folder, 'data', 'envoy', 'clusters.json'), 'the file that the service writes')
  writeFileSync(join(folder, 'tls', 'key.pem'), 'no key')
  await t.rejects(print(env, '--validate'), { message: /GATEWAY_TLS_CERT_FILE/ })
})

interface Answer {
  readonly status: number
  readonly fingerprint: string
  readonly json: Record<string, unknown>
}

function ask(port: number, path: string, options: RequestOptions, body = ''): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request(
      { host: '127.0.0.1', port, path, rejectUnauthorized: false, agent: false, ...options },
      async (response) => {
        const { fingerprint256 } = (
          response.socket as unknown as { getPeerCertificate(): { fingerprint256: string } }
        ).getPeerCertificate()
        let text = ''
        for await (const part of response) text += part
        resolve({
          status: response.statusCode ?? 0,
          fingerprint: fingerprint256,
          json: text === '' ? {} : JSON.parse(text),
        })
      },
    )
    asked.on('error', reject).end(body)
  })
}

function startEnvoy(t: Test, config: string): ChildProcess {
  const child = spawn(
    envoyPath() ?? '',
    ['-c', config, '--disable-hot-restart', '--log-level', 'error', '--concurrency', '1'],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  )
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return child
}

t.test('two processes behind a separately configured Envoy', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const [port = 0] = await freePorts(1)
  const admin = { path: join(folder, 'admin.sock') }
  const { all, folder: ours } = await startReplicas(t, {
    count: 2,
    resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ plenty: 1e9 })],
    tokens: ['token-ann,ann,1,team'],
    env: { ENVOY_ADMIN_ADDRESS: `unix:${admin.path}` },
  })
  const env = {
    ...fullSettings(folder),
    GATEWAY_ADDRESS: `127.0.0.1:${port}`,
    GATEWAY_GRPC_ENDPOINTS: all.map(({ grpc }) => grpc).join(),
    GATEWAY_API_ENDPOINTS: all.map(({ api }) => api).join(),
    ENVOY_CONFIG_DIR: join(ours, 'clusters'),
  }
  const path = await print(env, '--write')
  t.equal(path, join(ours, 'clusters', 'bootstrap.json'))
  // An additional access log with the client's address.
  const log = join(folder, 'clients')
  const bootstrap = JSON.parse(readFileSync(path, 'utf8'))
  bootstrap.static_resources.listeners[0].filter_chains[0].filters[0].typed_config.access_log.push({
    name: 'clients',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog',
      path: log,
      log_format: {
        text_format_source: { inline_string: '%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%\n' },
      },
    },
  })
  writeFileSync(path, JSON.stringify(bootstrap))
  startEnvoy(t, path)
  await poll(
    () =>
      requestAdmin(admin, '/ready').then(
        () => true,
        () => false,
      ),
    'Envoy is ready',
    30_000,
  )

  const authorization = 'Bearer token-ann'
  const headers = { authorization, 'content-type': 'application/json' }
  const made = await ask(
    port,
    '/v1/api-keys',
    { method: 'POST', headers },
    '{"name":"k","subscription":"plenty"}',
  )
  t.equal(made.status, 201)
  const chat = (client = '192.0.2.7') =>
    ask(
      port,
      chatPath,
      {
        method: 'POST',
        headers: {
          ...headers,
          authorization: `Bearer ${made.json.key}`,
          'x-forwarded-for': `203.0.113.9, ${client}`,
        },
      },
      '{"model":"sim","messages":[]}',
    )
  t.equal((await chat()).status, 200)
  await requestAdmin(admin, '/reopen_logs', 'POST')
  await poll(
    () => readFileSync(log, 'utf8').includes('192.0.2.7\n'),
    'the address from the trusted proxy is used',
  )
  t.notMatch(
    readFileSync(log, 'utf8'),
    /203\.0\.113\.9/,
    'the address that the client claims is not used',
  )

  t.test('a replaced certificate takes effect at once', async (t) => {
    const { fingerprint } = await chat()
    const fresh = join(folder, 'fresh')
    mkdirSync(fresh)
    selfSigned(fresh, 'DNS:localhost,IP:127.0.0.1')
    for (const name of ['key.pem', 'cert.pem']) {
      cpSync(join(fresh, name), join(folder, 'tls', `.${name}`))
      renameSync(join(folder, 'tls', `.${name}`), join(folder, 'tls', name))
    }
    await poll(
      async () => (await chat()).fingerprint !== fingerprint,
      'the new certificate is used',
    )
    t.equal((await chat()).status, 200)
  })

  t.test('a process reports that another hangs', async (t) => {
    const [first, second] = all
    second?.signal('SIGSTOP')
    for (let i = 0; i < 20; i += 1) t.equal((await chat()).status, 200)
    await poll(
      async () => {
        const ready = await fetch(`http://${first?.internal}/readyz`)
        const { degraded = [] } = (await ready.json()) as { degraded?: readonly string[] }
        return ready.status === 200 && degraded.includes('replicas')
      },
      '/readyz shows it',
      20_000,
    )
    await poll(
      () => /replica-2.*not reported for 5 s/.test(first?.log() ?? ''),
      'the log names the process',
    )
    second?.signal('SIGCONT')
    await poll(() => first?.log().includes('all processes report again'), 'the process is back')
  })
})

t.test('the built-in command prints the configuration', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const printed = execFileSync(
    process.execPath,
    [new URL('../../src/cli/main.js', import.meta.url).pathname, 'envoy-config'],
    { env: { PATH: process.env.PATH, DATA_DIR: folder }, cwd: folder },
  )
  t.equal(JSON.parse(printed.toString()).node.id, 'tollgate-gateway')
  t.notOk(existsSync(join(folder, 'envoy')), 'no file is written')
})

t.test('the service writes the configuration before it is ready', async (t) => {
  const folder = temporaryFolder(t)
  const env = {
    API_ADDRESS: `unix:${join(folder, 'api.sock')}`,
    GRPC_ADDRESS: `unix:${join(folder, 'grpc.sock')}`,
    ENVOY_ADMIN_ADDRESS: `unix:${join(folder, 'admin.sock')}`,
    ENVOY_CONFIG_DIR: join(folder, 'envoy'),
    USAGE_JOURNAL: join(folder, 'journal', 'usage.jsonl'),
    DATA_DIR: join(folder, 'data'),
  }
  const service = await serve({
    ...env,
    ENVOY_CONFIG_WRITE: 'true',
    DATABASE_URL: await createDatabase(t),
    INTERNAL_ADDRESS: '127.0.0.1:0',
    METRICS_ADDRESS: 'off',
    LOG_LEVEL: 'silent',
    AUDIT_LOG: 'off',
  })
  t.teardown(() => service.stop())
  const written = readFileSync(join(folder, 'envoy', 'bootstrap.json'), 'utf8').trimEnd()
  t.equal(written, await print(env))
  t.match(readFileSync(join(folder, 'envoy', 'clusters.json'), 'utf8'), /llm\/sim-small/)
})
