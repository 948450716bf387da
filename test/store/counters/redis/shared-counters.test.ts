import root, { type Test } from 'tap'
import { type Service, serve } from '../../../../src/main.ts'
import { ConfigError, loadConfig, showAddress } from '../../../../src/settings/config.ts'
import { createDatabase } from '../../../support/database.ts'
import {
  accessLogMessage,
  checkOf,
  checkResponse,
  structOf,
} from '../../../support/envoy-messages.ts'
import { connect } from '../../../support/grpc-client.ts'
import { readScrape } from '../../../support/metrics.ts'
import { poll } from '../../../support/poll.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../../../support/valkey.ts'

const checkPath = '/envoy.service.auth.v3.Authorization/Check'
const logs = '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs'
const chat = '/llm/sim-small/v1/chat/completions'

async function startService(t: Test, env: Record<string, string>) {
  const service = await serve({
    LOG_LEVEL: 'silent',
    AUDIT_LOG: 'off',
    DATA_DIR: temporaryFolder(t),
    TOKEN_AUTH_FILE: 'examples/tokens.csv',
    API_ADDRESS: '127.0.0.1:0',
    INTERNAL_ADDRESS: '127.0.0.1:0',
    GRPC_ADDRESS: '127.0.0.1:0',
    METRICS_ADDRESS: '127.0.0.1:0',
    ...env,
  })
  t.teardown(() => service.stop())
  return { service, grpc: connect(t, `127.0.0.1:${portOf(service)}`) }
}

function portOf({ addresses }: Service): number {
  const [address] = addresses.grpc
  return address !== undefined && 'port' in address ? address.port : 0
}

async function degraded({ addresses }: Service): Promise<unknown> {
  const response = await fetch(`http://${showAddress(addresses.internal)}/readyz`)
  return ((await response.json()) as { degraded?: unknown }).degraded
}

async function redisAway({ addresses }: Service): Promise<number | undefined> {
  const response = await fetch(`http://127.0.0.1:${addresses.metrics?.port}/metrics`)
  return readScrape(await response.text()).value('tollgate_redis_away')
}

root.test('services with the same Redis share their counters', { skip: skipValkey }, async (t) => {
  const valkey = await startValkey(t)
  const env = { DATABASE_URL: await createDatabase(t), REDIS_URL: valkey.url }
  const [one, two] = [await startService(t, env), await startService(t, env)]
  const response = await fetch(`http://${showAddress(one.service.addresses.api)}/v1/api-keys`, {
    method: 'POST',
    headers: { authorization: 'Bearer alice-token' },
    body: JSON.stringify({ name: 'shared', subscription: 'team-a-tiny' }),
  })
  const { key } = (await response.json()) as { key: string }
  const isDenied = async ({ grpc }: typeof one): Promise<boolean> => {
    const answer = await grpc.ask(checkPath, checkOf(chat, { authorization: `Bearer ${key}` }))
    return 'denied_response' in checkResponse.decode(answer)
  }
  for (const each of [one, two]) t.notOk(await isDenied(each))

  const who = { user: 'alice', subscription: 'team-a-tiny', model: 'llm/sim-small', metered: true }
  const metadata = {
    'envoy.filters.http.ext_authz': structOf(who),
    'tollgate.usage': structOf({ total_tokens: 40 }),
  }
  const entry = {
    common_properties: { metadata: { filter_metadata: metadata } },
    response: { response_code: { value: 200 } },
  }
  const { stream, ended } = one.grpc.send(logs)
  stream.write(accessLogMessage.encode({ http_logs: { log_entry: [entry] } }))
  stream.end()
  await ended
  t.ok(await isDenied(one), 'refused where it was counted')
  await poll(() => isDenied(two), 'and at the other service')

  t.equal(await degraded(one.service), undefined)
  t.equal(await redisAway(one.service), 0)
  await valkey.kill()
  await poll(() => degraded(one.service), 'Redis is known to be unavailable')
  t.strictSame(await degraded(one.service), ['redis'])
  t.equal(await redisAway(one.service), 1)
  t.ok(await isDenied(two), 'refused by the known sums')
  await valkey.start()
  await poll(async () => (await degraded(one.service)) === undefined, 'Redis is back')
})

root.test('settings of counters are checked', async (t) => {
  t.match(loadConfig({}), { redisUrl: undefined, onCounterLoss: 'allow', counterFlushMs: 5 })
  t.match(
    loadConfig({
      REDIS_URL: 'redis+cluster://a:1,b:2',
      ON_COUNTER_LOSS: 'deny',
      COUNTER_FLUSH_MS: '20',
    }),
    { redisUrl: 'redis+cluster://a:1,b:2', onCounterLoss: 'deny', counterFlushMs: 20 },
  )
  const bad = { REDIS_URL: 'http://:secret@a', ON_COUNTER_LOSS: 'maybe', COUNTER_FLUSH_MS: '0' }
  try {
    loadConfig(bad)
    t.fail('expected a refusal')
  } catch (error) {
    t.ok(error instanceof ConfigError)
    const { problems, message } = error as ConfigError
    t.match(problems, [/^REDIS_URL: /, /^ON_COUNTER_LOSS: /, /^COUNTER_FLUSH_MS: /])
    t.notMatch(message, 'secret')
  }
})
