import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import root from 'tap'
import { serve } from '../../src/main.ts'
import { openRedis } from '../../src/ratelimit/redis/open-redis.ts'
import type { Counter } from '../../src/ratelimit/rules/counter.ts'
import { emptyHold } from '../../src/ratelimit/rules/hold.ts'
import { formatAddress } from '../../src/settings/config.ts'
import { createDatabase } from '../support/database.ts'
import { inPod } from '../support/in-pod.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

const skip = { skip: skipValkey }

/** A Redis, and a user of it who may take holds until `refuse` is called. */
async function startRefusing(t: Parameters<typeof startValkey>[0]) {
  const { client, port } = await startValkey(t)
  await client.acl('SETUSER', 'ada', 'reset', 'on', '>secret', '~*', '+@all')
  return {
    url: `redis://ada:secret@127.0.0.1:${port}`,
    // Sums do not use it.
    refuse: () => client.acl('SETUSER', 'ada', '-zrangebyscore'),
  }
}

root.test('holds that Redis refuses are logged once', skip, async (t) => {
  const { url, refuse } = await startRefusing(t)
  const lines: Record<string, string>[] = []
  const log = pino({ base: null }, { write: (line: string) => lines.push(JSON.parse(line)) })
  const { signal } = new AbortController()
  const redis = await openRedis({ url: () => url, onFlushed() {}, log, signal })
  const holds = redis.createHolds({
    windows: () => [],
    read: async () => [],
    partitionOf: () =>
      ({ tag: '{all}', gateway: 'g', lastEnded: () => [] }) as unknown as ReturnType<
        Parameters<typeof redis.createHolds>[0]['partitionOf']
      >,
    isWriter: () => true,
  })
  t.teardown(async () => {
    await holds.stop(0)
    redis.connection.close()
  })
  const counter: Required<Counter> = {
    ...{ key: 'basic\nllm/small\nconcurrency\nada', owner: 'ada' },
    ...{ window: { ms: 0 }, limit: 9 },
  }
  const hold = async () =>
    holds.hold({ ...emptyHold, id: 'a', counters: [], requestCounters: [counter] }, Date.now())
  t.match(await hold(), { outcome: 'held' })
  t.notOk(holds.isRefused)
  await refuse()
  for (let i = 0; i < 3; i += 1) await t.rejects(hold, { name: 'ReplyError' })
  t.ok(holds.isRefused)
  t.match(lines, [{ code: 'holds_refused', cause: /zrangebyscore|run this command/i }])
  t.equal(lines.length, 1)
})

root.test('a process whose holds are refused is degraded', skip, async (t) => {
  const { url, refuse } = await startRefusing(t)
  const folder = temporaryFolder(t)
  const resources = temporaryFolder(t)
  cpSync('examples/resources', resources, { recursive: true })
  const file = join(resources, 'subscriptions.yaml')
  const limited = 'name: sim-small\n      concurrency: 5'
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll('name: sim-small', limited))
  const service = await serve({
    ...process.env,
    LOG_LEVEL: 'silent',
    AUDIT_LOG: 'off',
    DATABASE_URL: await createDatabase(t),
    REDIS_URL: url,
    RESOURCES: `file:${resources}`,
    DATA_DIR: folder,
    USAGE_JOURNAL: join(folder, 'usage.jsonl'),
    TOKEN_AUTH_FILE: 'examples/tokens.csv',
    API_ADDRESS: '127.0.0.1:0',
    INTERNAL_ADDRESS: '127.0.0.1:0',
    GRPC_ADDRESS: '127.0.0.1:0',
    METRICS_ADDRESS: 'off',
    ...inPod('first'),
  })
  t.teardown(() => service.stop())
  const api = `http://${formatAddress(service.addresses.api)}`
  const readyz = `http://${formatAddress(service.addresses.internal)}/readyz`
  const headers = { authorization: 'Bearer alice-token', 'content-type': 'application/json' }
  const explain = async () =>
    (
      await fetch(`${api}/v1/explain`, {
        ...{ method: 'POST', headers, body: JSON.stringify({ model: 'sim-small' }) },
      })
    ).json() as Promise<{ allowed: boolean }>
  const first = await explain()
  t.match(first, { allowed: true }, JSON.stringify(first))
  t.match(await (await fetch(readyz)).json(), { degraded: undefined })
  await refuse()
  t.match(await explain(), { allowed: true }, 'ON_COUNTER_LOSS allows it')
  await poll(
    async () => JSON.stringify(await (await fetch(readyz)).json()).includes('redis'),
    'the process is degraded',
  )
})
