/**
 * A real Postgres for installations without one: its programs come from npm, its data is stored in a folder, and only
 * this machine can reach it. The default if DATABASE_URL is not set.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { withTimeout } from '../../src/runtime/with-timeout.ts'
import { openPool } from '../../src/store/postgres/postgres.ts'
import { claim } from '../claim.ts'
import { freePort } from '../own-addresses.ts'
import { commandLine, identify, isRunning, readIfThere } from '../process-identity.ts'
import { endWithUs, howItEnds } from './end-with-us.ts'
import { databaseUser, ensureData, reasonIn } from './postgres-data.ts'
import { chooseLocation, homeOf, type PostgresLocation, runAs } from './postgres-location.ts'

/** A running embedded Postgres. */
export type EmbeddedPostgres = Awaited<ReturnType<typeof startEmbeddedPostgres>>

/** Options of startEmbeddedPostgres. */
interface EmbeddedPostgresOptions {
  /** Its folder, created if missing; one process at a time may use it. */
  readonly directory: string
  readonly log: (line: string) => void
  /** The port on 127.0.0.1; any free one by default. */
  readonly port?: number
  /** Additional settings of Postgres, which override ours. */
  readonly settings?: Readonly<Record<string, string | number>>
}

const databaseName = 'tollgate'
const readyWithinMs = 60_000
const pollMs = 25

/**
 * Starts the Postgres of `directory`, creating its data the first time, and resolves when it is
 * ready. First stops a server that a killed process left running there. Rejects with a readable
 * Error if the folder is in use, contains the data of another major version, or the server does not
 * start.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions) {
  const { directory, log } = options
  const location = chooseLocation(directory, log)
  const claimed = claim(join(directory, 'in-use'))
  if ('heldBy' in claimed) {
    throw new Error(`The database in ${directory} is in use by process ${claimed.heldBy}.`)
  }
  try {
    const data = join(location.home, 'data')
    await stopOrphan(data, log)
    const password = ensureData(location, data, log)
    const port = options.port ?? (await freePort('127.0.0.1'))
    const running = await run(location, data, { ...defaultSettings, ...options.settings, port })
    const exited = running.exited.then((how) => {
      claimed.release()
      return how
    })
    const url = (database: string) => urlOf(password, running.port, database)
    try {
      await ensureDatabase(url('postgres'))
    } catch (error) {
      await running.stop()
      throw error
    }
    return {
      ...running,
      /** Resolves when the server has ended, by `stop` or by itself, with a description. */
      exited,
      /** Connects as its only user to its database. Contains the password, so never log it. */
      url: url(databaseName),
    }
  } catch (error) {
    claimed.release()
    throw error
  }
}

/**
 * The URL of the server that another process runs in `directory`; undefined if none ever did. It
 * changes with each start, and contains the password, so never log it.
 */
export function findEmbeddedPostgres(directory: string): string | undefined {
  const home = homeOf(directory)
  const password = readIfThere(join(home, 'password'))
  // Line 4 is the port. While no server runs, use a port that refuses connections.
  const port = Number(readPidFile(join(home, 'data'))[3]) || 1
  return password && urlOf(password, port, databaseName)
}

function urlOf(password: string, port: number, database: string): string {
  return `postgres://${databaseUser}:${password}@127.0.0.1:${port}/${database}`
}

async function run(
  location: PostgresLocation,
  data: string,
  settings: Readonly<Record<string, string | number>> & { readonly port: number },
) {
  const logFile = join(location.home, 'postgres.log')
  const output = openSync(logFile, 'w', 0o600)
  const child = spawn(
    join(location.bin, 'postgres'),
    ['-D', data, ...Object.entries(settings).flatMap(([k, v]) => ['-c', `${k}=${v}`])],
    // A separate process group: Ctrl-C at the terminal must not stop it before its clients.
    { ...runAs(location), detached: true, stdio: ['ignore', output, output] },
  )
  closeSync(output)
  const unwatch = child.pid === undefined ? () => {} : endWithUs(child.pid, killedStopping)
  const exited = howItEnds(child).finally(unwatch)
  /** Ends open connections and the server. Committed data is not lost, however it ends. May be called twice. */
  const stop = async (graceMs = stopWithinMs) => {
    for (const [signal, share] of stopping) {
      if (child.exitCode !== null || child.signalCode !== null) break
      child.kill(signal)
      await withTimeout(share * graceMs, exited)
    }
  }
  const deadline = Date.now() + readyWithinMs
  while (!isReady(data, child.pid)) {
    const ended = await Promise.race([exited, delay(pollMs)])
    if (ended !== undefined || Date.now() > deadline) {
      await stop()
      throw new Error(
        `The embedded Postgres did not start (${ended ?? 'no response in time'}): ${reasonIn(readFileSync(logFile, 'utf8'))} (${logFile})`,
      )
    }
  }
  return { port: settings.port, pid: child.pid as number, exited, stop }
}

const stopWithinMs = 25_000
/**
 * Fast shutdown, then immediate (the next start recovers), then SIGKILL; each with a share of the
 * time.
 */
const stopping = [
  ['SIGINT', 0.6],
  ['SIGQUIT', 0.2],
  ['SIGKILL', 0.2],
] as const

/** The signals to stop it, one second apart, if this process was killed before. */
const killedStopping = ['SIGINT', '0', '0', 'SIGQUIT', '0', 'SIGKILL'] as const

const defaultSettings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: 100,
  shared_buffers: '32MB',
  min_wal_size: '32MB',
  max_wal_size: '256MB',
  fsync: 'on',
  logging_collector: 'off',
  log_timezone: 'UTC',
  timezone: 'UTC',
  jit: 'off',
}

/** postmaster.pid: line 1 is its process, line 8 its state, padded with spaces. */
function isReady(data: string, pid: number | undefined): boolean {
  const lines = readPidFile(data)
  return Number(lines[0]) === pid && lines[7]?.trim() === 'ready'
}

function readPidFile(data: string): string[] {
  return (readIfThere(join(data, 'postmaster.pid')) ?? '').split('\n')
}

/**
 * Stops a server that a killed process left running on this data, and removes its pid file. The
 * file alone is no proof, because the process id may have been reused.
 */
async function stopOrphan(data: string, log: (line: string) => void): Promise<void> {
  const pid = Number(readPidFile(data)[0])
  if (!Number.isInteger(pid) || pid <= 0) return
  const orphan = identify(pid)
  if (orphan !== undefined && commandLine(pid).includes(`postgres -D ${data}`)) {
    log(`Stopping the Postgres (process ${pid}) that an earlier run left behind`)
    for (const [signal, share] of stopping) {
      const deadline = Date.now() + share * stopWithinMs
      if (isRunning(orphan)) process.kill(pid, signal)
      while (isRunning(orphan) && Date.now() < deadline) await delay(pollMs)
    }
  }
  rmSync(join(data, 'postmaster.pid'), { force: true })
}

async function ensureDatabase(url: string): Promise<void> {
  const sql = openPool({ url, connections: 1 })
  try {
    const found = await sql`select 1 from pg_database where datname = ${databaseName}`
    if (found.length === 0) await sql`create database ${sql.identifier(databaseName)}`
  } finally {
    await sql.end()
  }
}
