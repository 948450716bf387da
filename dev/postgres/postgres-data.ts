/**
 * The data folder of the embedded Postgres: created once, used only by the version that created it.
 */
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { withPathInErrors } from '../../src/runtime/path-in-errors.ts'
import { type PostgresLocation, runAs } from './postgres-location.ts'

/** The one user of the embedded database. */
export const databaseUser = 'tollgate'

/**
 * Creates `data` if missing, and returns its password. Throws a readable Error if that fails, or if
 * another major version created the data.
 */
export function ensureData(
  location: PostgresLocation,
  data: string,
  log: (line: string) => void,
): string {
  const password = ensurePassword(location.home, data)
  if (existsSync(data)) checkVersion(location, data)
  else {
    log(`Creating the database in ${location.home} (once)`)
    createData(location, data)
  }
  return password
}

/** Stored beside the data, readable only by us; an old one without data is useless. */
function ensurePassword(home: string, data: string): string {
  const file = join(home, 'password')
  if (!existsSync(data)) {
    rmSync(file, { force: true })
    const password = randomBytes(24).toString('hex')
    withPathInErrors(file, () => writeFileSync(file, password, { mode: 0o600, flag: 'wx' }))
  }
  return readFileSync(file, 'utf8')
}

function checkVersion(location: PostgresLocation, data: string): void {
  const found = readFileSync(join(data, 'PG_VERSION'), 'utf8').trim()
  const { stdout } = runProgram(location, 'postgres', ['--version'])
  const ours = /(\d+)\./.exec(stdout)?.[1]
  if (found === ours) return
  throw new Error(
    `The database in ${data} was made by PostgreSQL ${found} and this is PostgreSQL ${ours}: dump it with the old version and restore it, or set DATA_DIR to another folder.`,
  )
}

/**
 * Runs initdb beside the final location and renames the result, so that a killed start leaves no
 * partial database.
 */
function createData(location: PostgresLocation, data: string): void {
  for (const entry of readdirSync(location.home)) {
    if (entry.startsWith('new-'))
      rmSync(join(location.home, entry), { recursive: true, force: true })
  }
  const unfinished = join(location.home, 'new-data')
  const secret = join(location.home, 'new-secret')
  mkdirSync(unfinished, { mode: 0o700 })
  writeFileSync(secret, readFileSync(join(location.home, 'password')), { mode: 0o600, flag: 'wx' })
  if (location.user !== undefined) {
    for (const path of [unfinished, secret]) chownSync(path, location.user.uid, location.user.gid)
  }
  try {
    const { status, output } = runProgram(location, 'initdb', [
      ...['-D', unfinished, '-U', databaseUser, `--pwfile=${secret}`, '--auth=scram-sha-256'],
      ...['--encoding=UTF8', '--locale=C', '--no-instructions'],
    ])
    if (status !== 0) throw new Error(`The database could not be created: ${reasonIn(output)}`)
    renameSync(unfinished, data)
  } finally {
    rmSync(secret, { force: true })
    rmSync(unfinished, { recursive: true, force: true })
  }
}

function runProgram(location: PostgresLocation, name: string, args: string[]) {
  const { status, stdout, stderr, error } = spawnSync(join(location.bin, name), args, {
    ...runAs(location),
    encoding: 'utf8',
  })
  if (error !== undefined)
    throw new Error(`${name} of the embedded Postgres cannot be run: ${error.message}`)
  return { status, stdout, output: `${stdout}${stderr}` }
}

/** The line of a program's output that explains its failure: the first error, else the last line. */
export function reasonIn(output: string): string {
  const lines = output.trim().split('\n')
  return lines.find((line) => /\b(FATAL|PANIC|ERROR|error):/.test(line)) ?? lines.at(-1) ?? ''
}
