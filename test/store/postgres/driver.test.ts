import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { type Test, test } from 'tap'
import { packageRoot } from '../../../src/runtime/package-root.ts'
import { createDatabase } from '../../support/database.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { createPool } from '../../support/key-store.ts'
import { poll } from '../../support/poll.ts'
import { startTcpProxy } from '../../support/tcp-proxy.ts'

// Mistakes of the client `postgres` 3.4.9, tested through our own code.

test('a statement that fails after some rows affects no later one', async (t) => {
  const api = await createKeyApi(t)
  const { sql } = api
  const { id, key } = await api.createKey('bob')
  const { id: kept } = await api.createKey('bob')
  // As a search that is ended while it sends rows; on every connection.
  const failing = Array.from({ length: 25 }, () =>
    t.rejects(sql`select repeat('x', 1000), 1 / (500 - i) from generate_series(1, 1000) i`.run()),
  )
  await Promise.all(failing)
  for (let round = 0; round < 12; round += 1) {
    const used = await api.ask('POST /internal/v1/api-keys/validate', { body: { key } })
    t.match(used.json(), { valid: true })
    const got = await api.ask(`GET /v1/api-keys/${id}`, { as: 'bob' })
    t.equal(got.statusCode, 200)
    const found = await api.ask('POST /v1/api-keys/search', { as: 'bob' })
    t.equal(found.json().data.length, 2)
  }
  t.equal((await api.ask(`DELETE /v1/api-keys/${kept}`, { as: 'bob' })).statusCode, 200)
  t.equal((await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'bob' })).statusCode, 200)
})

/** Keeps statements and transactions running, and answers each line of its standard input. */
const program = `
  import { createInterface } from 'node:readline'
  import { openPool } from './src/store/postgres/postgres.ts'
  const sql = openPool({ url: process.env.DATABASE_URL, connections: 5 })
  const pause = () => new Promise((resume) => setTimeout(resume, 2))
  const plain = async () => { await sql\`select pg_sleep(0.005)\` }
  const pinned = () => sql.begin(async (one) => {
    for (let i = 0; i < 5; i += 1) {
      await one\`select pg_sleep(0.005)\`
      await pause()
    }
  })
  const load = async (action) => { for (;;) { await action().catch(() => {}); await pause() } }
  for (const action of [plain, plain, pinned, pinned, pinned]) void load(action)
  console.log('ready')
  for await (const _ of createInterface({ input: process.stdin })) {
    let answer = 'unavailable'
    while (answer === 'unavailable') {
      answer = await sql\`select 'well' as word\`.then(([row]) => row.word, () => 'unavailable')
      await pause()
    }
    console.log(answer)
  }`

/** Runs the program with this database until the test ends. */
async function startUsing(t: Test, url: string) {
  const child: ChildProcess = spawn(process.execPath, ['--input-type=module', '-e', program], {
    cwd: packageRoot,
    env: { DATABASE_URL: url },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let complaint = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaint += text
  })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })[
    Symbol.asyncIterator
  ]()
  const next = async (): Promise<unknown> => {
    const ended = exited.then(([code, signal]) => `ended: ${code ?? signal}\n${complaint}`)
    return await Promise.race([lines.next().then(({ value }) => value ?? ended), ended])
  }
  t.equal(await next(), 'ready')
  return {
    ask(): Promise<unknown> {
      child.stdin?.write('\n')
      return next()
    },
  }
}

test('a cut connection ends no process', async (t) => {
  const url = await createDatabase(t)
  const sql = await createPool(t, url)
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  const using = await startUsing(t, proxy.through(url))
  const terminate = async (): Promise<number> => {
    const rows = await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`
    return rows.length
  }
  for (let round = 0; round < 20; round += 1) {
    await poll(async () => (await terminate()) > 0, 'its connections are terminated')
    if (!t.equal(await using.ask(), 'well', 'terminated')) return
    proxy.reset()
    if (!t.equal(await using.ask(), 'well', 'reset')) return
  }
})

test('a server that dies at any moment leaves no unhandled rejection', async (t) => {
  const url = await createDatabase(t)
  let most = Number.POSITIVE_INFINITY
  // Cuts a new connection after this many bytes from the server, both during its start and later.
  const onAnswers = () => {
    let seen = 0
    return (answers: Buffer) => {
      seen += answers.length
      if (seen > most) proxy.reset()
      return answers
    }
  }
  const proxy = await startTcpProxy(t, Number(new URL(url).port), { onAnswers })
  const using = await startUsing(t, proxy.through(url))
  t.equal(await using.ask(), 'well')
  for (let cutAfter = 1; cutAfter < 1_500; cutAfter += 30) {
    most = cutAfter
    proxy.reset()
    await new Promise((resume) => setTimeout(resume, 40))
    most = Number.POSITIVE_INFINITY
    proxy.reset()
    if (!t.equal(await using.ask(), 'well', `cut after ${cutAfter} bytes`)) return
  }
})
