/**
 * Finds a Node that can run the sources, and runs them on it. Node 24 strips types by itself; an
 * older Node can only run this file.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { installPackages, LaunchError, lacksNode, lacksPostgres, nodePackage } from './install.js'

/** The folder with package.json. */
export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

const WANTED_MAJOR = 24
const PARENT_POLL_MS = 500

/**
 * Installs what is missing and runs `entry` (a path from the package's root) with `args` on Node 24
 * or newer: in this process if it is one, else in a child that is as good as this process, sharing
 * its terminal, signals and exit status. Ends the process with one sentence when it cannot.
 *
 * Node refuses to strip types under node_modules: a package has the sources without them, in lib/.
 * @param {string} entry
 * @param {string[]} args
 * @param {{ dev: boolean }} needs
 */
export async function launch(entry, args, { dev }) {
  try {
    const isMissing = () => needsPostgres(args)
    await installPackages(ROOT, { dev, log: (line) => console.error(line), isMissing })
    const path = findEntry(entry)
    if (major(process.versions.node) >= WANTED_MAJOR) {
      process.argv = [process.execPath, path, ...args]
      await import(pathToFileURL(path).href)
    } else {
      runAsChild(await findNode(dev), [path, ...args])
    }
  } catch (error) {
    if (!(error instanceof LaunchError)) throw error
    console.error(error.message)
    process.exitCode = error.exitCode
  }
}

/**
 * Whether this starts the embedded Postgres, and it is not there.
 * @param {string[]} args
 */
function needsPostgres([command]) {
  const { DATABASE_URL, DATABASE_URL_FILE } = process.env
  return command === 'up' && !DATABASE_URL && !DATABASE_URL_FILE && lacksPostgres(ROOT)
}

/** @param {string} entry */
function findEntry(entry) {
  const packed = join(ROOT, 'lib', entry.replace(/\.ts$/, '.js'))
  // Only of a package: in a clone lib/ is there while it is packed.
  return !existsSync(join(ROOT, 'src')) && existsSync(packed) ? packed : join(ROOT, entry)
}

/**
 * The path of a Node that is new enough. One that an interrupted installation has left out is installed
 * first.
 * @param {boolean} dev
 * @returns {Promise<string>}
 */
async function findNode(dev) {
  const found = findInstalledNode()
  if (found !== undefined) return found
  const log = (/** @type {string} */ line) => console.error(line)
  await installPackages(ROOT, { dev, log, isMissing: () => lacksNode(ROOT) })
  const node = findInstalledNode()
  if (node !== undefined) return node
  const why = lacksNode(ROOT)
    ? `npm could not fetch ${nodePackage}, which brings a newer one`
    : `no package for ${process.platform}-${process.arch} brings a newer one`
  throw new LaunchError(
    `Tollgate needs Node ${WANTED_MAJOR} or newer: this is Node ${process.versions.node}, and ${why}. Install Node ${WANTED_MAJOR} and try again.`,
  )
}

/** @returns {string | undefined} */
function findInstalledNode() {
  const require = createRequire(import.meta.url)
  /** @type {string[]} */
  const candidates = []
  try {
    const manifest = require.resolve(`${nodePackage}/package.json`)
    candidates.push(join(dirname(manifest), 'bin', 'node'))
  } catch {
    // There is no such package for this platform, or optional packages were left out.
  }
  candidates.push('node')
  for (const node of candidates) {
    if (node !== 'node' && !existsSync(node)) continue
    // Tested by running it: a binary for another C library exists but does not run.
    const { stdout } = spawnSync(node, ['-p', 'process.versions.node'], { encoding: 'utf8' })
    if (major(stdout ?? '') >= WANTED_MAJOR) return node
  }
  return undefined
}

/** @param {string} version */
function major(version) {
  return Number.parseInt(version, 10) || 0
}

/**
 * @param {string} node
 * @param {string[]} args
 */
function runAsChild(node, args) {
  // Over the IPC channel the child notices when this process is killed.
  const child = spawn(node, args, { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] })
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2'])) {
    process.on(signal, () => child.kill(signal))
  }
  // npm does not signal its scripts when it is killed, so they must check.
  const parent = process.ppid
  if (process.env.npm_lifecycle_event !== undefined) {
    const watch = setInterval(() => {
      if (process.ppid === parent) return
      clearInterval(watch)
      child.kill('SIGTERM')
    }, PARENT_POLL_MS)
    watch.unref()
  }
  child.on('error', (error) => {
    console.error(`Node could not be started: ${error.message}`)
    process.exitCode = 1
  })
  child.on('exit', (code, signal) => {
    process.exit(code ?? 128 + constants.signals[/** @type {NodeJS.Signals} */ (signal)])
  })
}
