import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ownSettings, type RunningTollgate, runTollgate } from '../support/tollgate.ts'

const skip = envoyPath() === undefined && 'no Envoy'

test('only our user may read the logs', { skip }, async (t) => {
  const dataDir = temporaryFolder(t)
  const logs = join(dataDir, 'log')
  mkdirSync(logs)
  for (const name of ['service.log', 'envoy.log']) {
    writeFileSync(join(logs, name), 'of an older version')
    chmodSync(join(logs, name), 0o644)
  }
  const settings = await ownSettings(dataDir)
  const up = runTollgate(t, ['up'], settings)
  await up.until('curl')
  const modes = readdirSync(logs).map((name) => [name, statSync(join(logs, name)).mode & 0o777])
  t.strictSame(Object.fromEntries(modes), {
    'envoy.log': 0o600,
    'model-server.log': 0o600,
    'service.log': 0o600,
  })
  t.notMatch(readFileSync(join(logs, 'service.log'), 'utf8'), 'older version')

  await t.test('finds a refusal in the log by the client’s request id', (t) =>
    findsRefusals(t, settings, up),
  )
  up.signal('SIGTERM')
  t.equal(await up.ended, 0)
})

async function findsRefusals(
  t: Test,
  settings: Record<string, string>,
  up: RunningTollgate,
): Promise<void> {
  const { DATA_DIR = '' } = settings
  const gateway = `http://${settings.GATEWAY_ADDRESS}`
  const lines = (): Record<string, unknown>[] =>
    readFileSync(join(DATA_DIR, 'log', 'service.log'), 'utf8')
      .split('\n')
      .flatMap((line) => (line.startsWith('{') ? JSON.parse(line) : []))
  const lineOf = (answer: Response) =>
    poll(() => {
      const id = answer.headers.get('x-request-id')
      return lines().find((line) => line.request_id === id)
    }, 'the refusal is logged')
  const path = '/llm/sim-small/v1/chat/completions'
  const headers = { authorization: 'Bearer sk-tg-nobody' }
  const refused = await fetch(gateway + path, { method: 'POST', headers, body: '{}' })
  const local = { network: String, time: Number, msg: 'request refused' }
  t.match(await lineOf(refused), {
    ...local,
    code: 'credential_invalid',
    status: 401,
    model: 'llm/sim-small',
  })
  const bob = { authorization: 'Bearer bob-token' }
  const search = '/v1/api-keys/search'
  const body = JSON.stringify({ filters: { username: 'alice' } })
  const forbidden = await fetch(gateway + search, { method: 'POST', headers: bob, body })
  t.match(await lineOf(forbidden), {
    ...local,
    code: 'admin_required',
    user: 'bob',
    method: 'POST',
    route: search,
  })

  const begun = lines().length
  const flood = Array.from({ length: 200 }, () =>
    fetch(gateway + path, { method: 'POST', headers }),
  )
  await Promise.all(flood)
  const summed = () => {
    const fresh = lines().slice(begun)
    const omitted = fresh.reduce((sum, line) => sum + Number(line.omitted ?? 0), 0)
    const written = fresh.filter(({ msg }) => msg === 'request refused').length
    return omitted > 0 && omitted + written === 200
  }
  await poll(summed, 'logged and omitted refusals add up')

  const level = `http://${settings.INTERNAL_ADDRESS}/internal/v1/log-level`
  const read = async () => ((await (await fetch(level)).json()) as { level: string }).level
  up.signal('SIGUSR2')
  await poll(async () => (await read()) === 'debug', 'the first signal has changed the level')
  up.signal('SIGUSR2')
  await poll(async () => (await read()) === 'info', 'the second signal has changed it back')
  await fetch(level, { method: 'PUT', body: JSON.stringify({ level: 'error' }) })
  t.equal(await read(), 'error')
}
