import { join } from 'node:path'
import { test } from 'tap'
import { serve } from '../../src/main.ts'
import { formatAddress } from '../../src/settings/config.ts'
import { createDatabase } from '../support/database.ts'
import { addReplica } from '../support/followers.ts'
import { inPod } from '../support/in-pod.ts'
import { createPool } from '../support/key-store.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

test('an administrator sees processes, stores and journal', { skip: skipValkey }, async (t) => {
  const url = await createDatabase(t)
  const folder = temporaryFolder(t)
  const valkey = await startValkey(t)
  const service = await serve({
    ...process.env,
    LOG_LEVEL: 'silent',
    AUDIT_LOG: 'off',
    DATABASE_URL: url,
    REDIS_URL: valkey.url,
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
  const at = `http://${formatAddress(service.addresses.api)}`
  const ask = async (path: string, who: string, method = 'GET', body?: object) => {
    const headers = { authorization: `Bearer ${who}-token` }
    return (
      await fetch(at + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    ).json() as Promise<Record<string, string>>
  }
  const before = await ask('/v1/admin/state', 'admin')
  t.match(before, {
    ...{ replica: 'first', ready: true, degraded: [] },
    resources: { models: 2, policies: 2, subscriptions: 4, problems: 0 },
    replicas: [{ name: 'first', answers: true, unread_revocations: 0 }],
    revocations: { confirmed: 0, pending: 0, log_failing: false },
    database: { available: true, key_age_seconds: Number },
    redis: { available: true, losses: 0 },
    open_limit_requests: 0,
    journal: { failing: false, lines: 0 },
  })

  const sql = await createPool(t, url)
  await addReplica(sql, 'stuck')
  const { id } = await ask('/v1/api-keys', 'alice', 'POST', { name: 'mine' })
  await ask(`/v1/api-keys/${id}`, 'alice', 'DELETE')
  const after = await ask('/v1/admin/state', 'admin')
  t.match(after, { revocations: { confirmed: 0, pending: 1 } })
  const replicas = new Map(
    (after.replicas as unknown as { name: string }[]).map((each) => [each.name, each]),
  )
  t.match(replicas.get('stuck'), { answers: false, unread_revocations: 1 })
  t.match(replicas.get('first'), { answers: true, unread_revocations: 0 })
})
