import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { startOtlpReceiver } from '../support/otlp-receiver.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ownSettings, runTollgate } from '../support/tollgate.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const random = () => randomBytes(12).toString('hex')

test('no log, metric, span or audit line contains a secret', { skip }, async (t) => {
  const receiver = await startOtlpReceiver(t)
  const dataDir = temporaryFolder(t)
  const settings = await ownSettings(dataDir)
  const secrets = { token: random(), admin: random(), unknown: random(), collector: random() }
  const tokens = join(dataDir, 'tokens.csv')
  const rows = [
    `${secrets.token},alice,1,team-a`,
    `${secrets.admin},root,2,"tollgate-admins,team-a"`,
  ]
  writeFileSync(tokens, rows.join('\n'))
  const up = runTollgate(t, ['up'], {
    ...settings,
    TOKEN_AUTH_FILE: tokens,
    LOG_LEVEL: 'trace',
    OTEL_TRACES_EXPORTER: 'otlp',
    OTEL_METRICS_EXPORTER: 'otlp',
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.httpUrl,
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${secrets.collector}`,
    OTEL_BSP_SCHEDULE_DELAY: '50',
    OTEL_METRIC_EXPORT_INTERVAL: '300',
  })
  await up.until(String(settings.GATEWAY_ADDRESS))
  const gateway = `http://${settings.GATEWAY_ADDRESS}`
  await poll(async () => (await fetch(`${gateway}/health`)).ok, 'the service is ready', 30_000)

  const ask = (path: string, credential: string, body?: object, method = 'POST', more = {}) =>
    fetch(gateway + path, {
      method,
      headers: { authorization: `Bearer ${credential}`, ...more },
      ...(body && { body: JSON.stringify(body) }),
    })
  const minted = await ask('/v1/api-keys', secrets.token, { name: 'mine' })
  const { key, id } = (await minted.json()) as { key: string; id: string }
  t.match(key, /^sk-tg-/)
  const secretPart = key.slice(key.indexOf('_') + 1)
  const mistyped = `${key.slice(0, -2)}${key.endsWith('a') ? 'b' : 'a'}z`
  const foreign = `sk-oai-${random()}_${random()}`
  const prompt = random()
  const chat = { model: 'sim-small', messages: [{ role: 'user', content: prompt }] }
  const path = '/llm/sim-small/v1/chat/completions'
  t.equal((await ask(path, key, chat)).status, 200)
  t.equal((await ask('/v1/chat/completions', key, { ...chat, stream: true })).status, 200)
  for (const bad of [mistyped, foreign, secrets.unknown, secrets.token]) {
    t.equal((await ask(path, bad, chat)).status, 401)
    await ask('/v1/models', bad, undefined, 'GET')
  }
  // Secrets in unusual places.
  await ask(`/llm/${key}/v1/chat/completions`, key, chat)
  await ask('/v1/chat/completions', key, { ...chat, model: key })
  await ask(`/v1/api-keys/${key}`, secrets.admin, undefined, 'DELETE', { 'x-request-id': key })
  await ask('/v1/api-keys/bulk-revoke', secrets.admin, { username: key })
  await ask('/v1/api-keys/search', secrets.admin, { filters: { username: key } })
  await ask('/v1/api-keys', secrets.admin, { name: 'x', subscription: key })
  const internal = `http://${settings.INTERNAL_ADDRESS}/internal/v1/api-keys/validate`
  await fetch(internal, { method: 'POST', body: JSON.stringify({ key }) })
  t.equal((await ask(`/v1/api-keys/${id}`, secrets.token, undefined, 'DELETE')).status, 200)
  t.equal((await ask(path, key, chat)).status, 401)

  const scraped = await fetch(`http://${settings.METRICS_ADDRESS}/metrics`)
  const metrics = await scraped.text()
  await poll(
    () => receiver.spans.some(({ name }) => name === 'DELETE /v1/api-keys/:id'),
    'the spans are sent',
    20_000,
  )
  up.signal('SIGTERM')
  t.equal(await up.ended, 0)

  const files = ['log', 'audit', 'journal'].flatMap((folder) =>
    readdirSync(join(dataDir, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
      join(dataDir, folder, name),
    ),
  )
  const outputs: Record<string, string> = {
    'the terminal': up.output(),
    metrics,
    OTLP: Buffer.concat(receiver.raw).toString('latin1'),
  }
  for (const file of files) if (statSync(file).isFile()) outputs[file] = readFileSync(file, 'utf8')
  const forbidden = { ...secrets, key, secretPart, mistyped, foreign, prompt }
  for (const [output, text] of Object.entries(outputs)) {
    t.ok(text.length > 0 || !output.endsWith('.jsonl'), `${output} is not empty`)
    for (const [name, secret] of Object.entries(forbidden)) {
      t.notOk(text.includes(secret), `${name} in ${output}`)
    }
  }
  t.match(outputs[join(dataDir, 'audit', 'audit.jsonl')], id, 'the audit trail has the action')
  t.ok(
    receiver.headers.some(({ authorization }) => authorization === `Bearer ${secrets.collector}`),
  )
  t.equal(statSync(join(dataDir, 'audit', 'audit.jsonl')).mode & 0o777, 0o600)
})
