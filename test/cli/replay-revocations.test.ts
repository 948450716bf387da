import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { createPostgresApiKeys } from '../../src/keys/postgres-api-keys.ts'
import { expireWithSecrets } from '../../src/keys/revocations/ended-keys.ts'
import type { ApiKeyRecord } from '../../src/keys/rules/api-key.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { runAt } from '../support/command.ts'
import { createDatabase } from '../support/database.ts'
import { createPool, createRecord } from '../support/key-store.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a file that cannot be read does not keep the others from being replayed', async (t) => {
  const url = await createDatabase(t)
  await migrate(await createPool(t, url))
  const folder = temporaryFolder(t)
  const [missing, good] = ['missing', 'good'].map((name) =>
    join(folder, `revocations-${name}.jsonl`),
  )
  const line = { id: 'id', at: new Date().toISOString(), hash: 'a'.repeat(64), expires: null }
  writeFileSync(good as string, `\n${JSON.stringify(line)}\n`)
  const replay = (...args: string[]) =>
    runAt({ env: { DATABASE_URL: url } }, 'revocations', 'replay', ...args)
  t.match(await replay(missing as string, good as string), {
    status: 1,
    out: `${good}: 1 revocations, 0 of keys that were active again and are now revoked.`,
    err: `${missing} cannot be read (ENOENT).`,
  })
  const { status, out } = await replay(missing as string, good as string, '--json')
  t.equal(status, 1)
  t.match(JSON.parse(out), { data: [{ file: good, revocations: 1 }] })
  t.equal((await replay(good as string)).status, 0)
})

test('no name of a file acts on the terminal', async (t) => {
  const url = await createDatabase(t)
  await migrate(await createPool(t, url))
  const name = join(temporaryFolder(t), 'revocations-\u001b[2J.jsonl')
  const run = () => runAt({ env: { DATABASE_URL: url } }, 'revocations', 'replay', name)
  const missing = await run()
  writeFileSync(name, 'torn\n')
  const broken = await run()
  for (const { out, err } of [missing, broken]) t.notOk((out + err).includes('\u001b'))
  t.match(broken, { status: 1, out: /0 revocations/, err: /1 lines cannot be read/ })
})

test('a rotated key works until the overlap of its rotation ends', async (t) => {
  const url = await createDatabase(t)
  const sql = await createPool(t, url)
  await migrate(sql)
  const keys = createPostgresApiKeys(sql)
  const times = { createdAt: Date.now(), expiresAt: Date.now() + 90 * 86_400_000 }
  const [open, over, twice] = [1, 2, 3].map((n) => createRecord({ ...times, hash: `${n}` }))
  for (const record of [open, over, twice]) await keys.insert(record as ApiKeyRecord)
  const line = (hash: string, inMs?: number) =>
    JSON.stringify({
      id: hash,
      at: new Date().toISOString(),
      hash,
      ends: inMs && new Date(Date.now() + inMs).toISOString(),
      expires: null,
    })
  const file = join(temporaryFolder(t), 'revocations-a.jsonl')
  const lines = [line('1', 3_600_000), line('2', -1_000), line('3', 3_600_000), line('3')]
  writeFileSync(file, `${lines.join('\n')}\n`)
  const replay = () => runAt({ env: { DATABASE_URL: url } }, 'revocations', 'replay', file)
  t.match(await replay(), { status: 0, out: /4 revocations, 2 of keys.*\n.*: 1 keys expire/ })
  t.match(await replay(), { status: 0, out: /4 revocations, 0 of keys[^\n]*$/ })
  const found = await Promise.all([open, over, twice].map((each) => keys.findById(each?.id ?? '')))
  t.strictSame(
    found.map((record) => record?.status),
    ['active', 'revoked', 'revoked'],
  )
  t.ok((found[0]?.expiresAt ?? 0) < Date.now() + 3_600_000)
})

test('a secret that is listed again ends at the earlier time', async (t) => {
  const sql = await createPool(t, await createDatabase(t))
  await migrate(sql)
  const keys = createPostgresApiKeys(sql)
  const record = createRecord({ createdAt: Date.now(), expiresAt: null })
  await keys.insert(record)
  const soon = Date.now() + 60_000
  const listed = [3_600_000, 0, 7_200_000].map((later) => {
    return { ...record, at: 0, endsAt: soon + later }
  })
  t.equal(await expireWithSecrets(sql, listed), 1)
  t.equal((await keys.findById(record.id))?.expiresAt, soon)
})
