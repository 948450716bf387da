import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import root, { type Test, test } from 'tap'
import {
  type EmbeddedPostgres,
  findEmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../../dev/postgres/embedded-postgres.ts'
import { reasonIn } from '../../../dev/postgres/postgres-data.ts'
import { identify } from '../../../dev/process-identity.ts'
import { openPool } from '../../../src/store/postgres/postgres.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import '../../support/time-limit.ts'

test('the reason of a failure is its first error, else the last line', async (t) => {
  const full = 'running bootstrap script ... FATAL:  could not extend file: No space left on device'
  t.equal(
    reasonIn(`creating ...\n${full}\nHINT:  Check free disk space.\ninitdb: removing contents\n`),
    full,
  )
  t.equal(reasonIn('one\ntwo\n'), 'two')
})

function folder(t: Test): string {
  return join(temporaryFolder(t), 'postgres')
}

const used = folder(root)

/** A folder whose database exists: to create one takes half a second of CPU. */
async function usedFolder(t: Test): Promise<string> {
  if (!existsSync(used)) {
    await (await startEmbeddedPostgres({ directory: used, log() {} })).stop()
  }
  const directory = folder(t)
  execFileSync('cp', ['-a', used, directory])
  return directory
}

async function start(t: Test, directory: string, log: string[] = []): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ directory, log: (line) => log.push(line) })
  t.teardown(() => server.stop())
  return server
}

async function ask(url: string, query: string): Promise<unknown> {
  const sql = openPool({ url, connections: 1 })
  try {
    return (await sql.unsafe(query))[0]
  } finally {
    await sql.end()
  }
}

test('stored data survives a restart', async (t) => {
  const directory = folder(t)
  const first = await start(t, directory)
  await ask(first.url, 'create table kept as select 7 as value')
  await first.stop()
  t.equal(identify(first.pid), undefined)
  const second = await start(t, directory)
  t.strictSame({ ...((await ask(second.url, 'select value from kept')) as object) }, { value: 7 })
})

test('another process finds the server that runs, after each start', async (t) => {
  const directory = folder(t)
  t.equal(findEmbeddedPostgres(directory), undefined, 'there has never been one')
  const first = await start(t, directory)
  t.equal(findEmbeddedPostgres(directory), first.url)
  await first.stop()
  await t.rejects(ask(findEmbeddedPostgres(directory) ?? '', 'select 1'), { code: 'ECONNREFUSED' })
  const second = await start(t, directory)
  t.equal(findEmbeddedPostgres(directory), second.url)
})

test('a connection needs the password', async (t) => {
  const server = await start(t, await usedFolder(t))
  const url = new URL(server.url)
  url.password = 'guess'
  await t.rejects(ask(url.href, 'select 1'), { code: '28P01' })
  t.match(await ask(server.url, 'show listen_addresses'), { listen_addresses: '127.0.0.1' })
  t.match(await ask(server.url, 'show fsync'), { fsync: 'on' })
})

test('one process at a time may use a folder', async (t) => {
  const directory = await usedFolder(t)
  await start(t, directory)
  await t.rejects(start(t, directory), { message: `in use by process ${process.pid}` })
})

/** The server of a process that started it in this folder and was then killed. */
async function startAndDie(directory: string, env: NodeJS.ProcessEnv): Promise<number> {
  const script = `
    const { startEmbeddedPostgres } = await import(process.argv[1])
    const { pid } = await startEmbeddedPostgres({ directory: process.argv[2], log() {} })
    process.stdout.write(String(pid), () => process.kill(process.pid, 'SIGKILL'))`
  const module = new URL('../../../dev/postgres/embedded-postgres.ts', import.meta.url).href
  const killed = spawn(process.execPath, ['-e', script, module, directory], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const isDead = once(killed, 'exit')
  const pid = Number((await killed.stdout.toArray()).join(''))
  await isDead
  return pid
}

test('a server ends with its process, even if that is killed', async (t) => {
  const orphan = await startAndDie(await usedFolder(t), process.env)
  t.ok(orphan > 0)
  await poll(() => identify(orphan) === undefined, 'the server has ended', 30_000)
})

test('a server left by a killed process is stopped', async (t) => {
  const directory = await usedFolder(t)
  // Nothing watches it: there is no sh on this PATH.
  const orphan = await startAndDie(directory, { ...process.env, PATH: '/nowhere' })
  t.ok(identify(orphan), 'it outlives its starter')
  const log: string[] = []
  const server = await start(t, directory, log)
  t.equal(identify(orphan), undefined)
  t.match(log, [/left behind/])
  t.ok(await ask(server.url, 'select 1'))
})

test('data of another major version is refused', async (t) => {
  const directory = await usedFolder(t)
  writeFileSync(join(directory, 'data', 'PG_VERSION'), '12\n')
  await t.rejects(start(t, directory), {
    message: /made by PostgreSQL 12 and this is PostgreSQL 18/,
  })
})

test('a folder that only root may enter still works', { skip: !isRoot() }, async (t) => {
  const directory = folder(t)
  chmodSync(join(directory, '..'), 0o700)
  const log: string[] = []
  const server = await start(t, directory, log)
  t.match(log[0], /kept in \/var\/lib\/tollgate\//)
  const elsewhere = readFileSync(join(directory, 'kept-elsewhere'), 'utf8').trim()
  t.teardown(() => rmSync(elsewhere, { recursive: true }))
  t.ok(await ask(server.url, 'select 1'))
})

test('data outside is found again, but not by a copy', { skip: !isRoot() }, async (t) => {
  const parent = join(folder(t), '..')
  const [closed, moved, copied] = ['closed', 'moved', 'copied'].map((name) => join(parent, name))
  const at = (place = '') => join(place, 'postgres')
  mkdirSync(at(closed), { recursive: true })
  chmodSync(closed as string, 0o700)
  const homes = new Set<string>()
  t.teardown(() => {
    for (const home of homes) rmSync(home, { recursive: true })
  })
  const isMarked = async (place: string | undefined, mark?: string) => {
    const server = await start(t, at(place))
    homes.add(readFileSync(join(at(place), 'kept-elsewhere'), 'utf8').trim())
    if (mark !== undefined) await ask(server.url, mark)
    const found = await ask(server.url, `select to_regclass('mark')::text as found`)
    await server.stop()
    return JSON.stringify(found).includes('mark"')
  }
  t.equal(await isMarked(closed, 'create table mark ()'), true)
  chmodSync(closed as string, 0o755)
  t.equal(await isMarked(closed), true, 'after everybody may enter the folder')
  chmodSync(closed as string, 0o700)
  renameSync(closed as string, moved as string)
  t.equal(await isMarked(moved), true, 'after it was moved')
  cpSync(moved as string, copied as string, { recursive: true })
  chmodSync(copied as string, 0o700)
  t.equal(await isMarked(copied), false, 'a copy has data of its own')
  t.equal(await isMarked(moved), true, 'the original keeps its data')
  t.equal(homes.size, 2)
})

test('data in a folder that was closed is not replaced by an empty database', {
  skip: !isRoot(),
}, async (t) => {
  const directory = await usedFolder(t)
  chmodSync(join(directory, '..'), 0o700)
  await t.rejects(start(t, directory), { message: /which nobody cannot enter any more/ })
})

function isRoot(): boolean {
  return process.getuid?.() === 0
}
