import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { runAt } from '../support/command.ts'
import { createDatabase } from '../support/database.ts'
import { createPool } from '../support/key-store.ts'
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
