/** The data of `tollgate login`: the address of the gateway in use, and a credential for each address. */

import { readFileSync, rmSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { isObject } from '../formats/fields.ts'
import { parseJson } from '../formats/parse-json.ts'
import { makeFolder } from '../runtime/make-folder.ts'
import { replaceFile } from '../runtime/replace-file.ts'

interface Logins {
  /** The default address of commands. */
  readonly current: string | undefined
  /** By address, as it was validated. */
  readonly tokens: ReadonlyMap<string, string>
}

/** The file, below XDG_CONFIG_HOME or ~/.config. */
export function loginFile(env: NodeJS.ProcessEnv): string {
  const folder = env.XDG_CONFIG_HOME || join(env.HOME || homeOfUser(), '.config')
  return join(folder, 'tollgate', 'login.json')
}

/** `/dev/null` for users without a name, such as those of containers, who have none. */
function homeOfUser(): string {
  try {
    return homedir()
  } catch {
    return '/dev/null'
  }
}

/** Empty without a file. Throws a readable error if the file has another format, or other users may read it. */
export function readLogins(env: NodeJS.ProcessEnv): Logins {
  const path = loginFile(env)
  const text = readOwn(path)
  if (text === undefined) return { current: undefined, tokens: new Map() }
  const kept = parseJson(text)
  if (!isObject(kept) || !isObject(kept.tokens)) {
    throw new Error(
      `${path} was not written by tollgate login; run tollgate logout, which removes it.`,
    )
  }
  const tokens = Object.entries(kept.tokens).filter(
    (each): each is [string, string] => typeof each[1] === 'string',
  )
  const current = typeof kept.current === 'string' ? kept.current : undefined
  return { current, tokens: new Map(tokens) }
}

function readOwn(path: string): string | undefined {
  let mode: number
  let text: string
  try {
    mode = statSync(path).mode
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // The HOME of users who do not log in is often /dev/null.
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw new Error(`${path} cannot be read (${code}).`)
  }
  if ((mode & 0o077) === 0) return text
  throw new Error(`Others may read ${path}: run chmod 600 on it, and change the credential.`)
}

/** Replaces the saved addresses and credentials, in a file that only its owner may read. */
export async function writeLogins(env: NodeJS.ProcessEnv, { current, tokens }: Logins) {
  const path = loginFile(env)
  const kept = { current, tokens: Object.fromEntries(tokens) }
  try {
    makeFolder(dirname(path), 0o700)
    await replaceFile(path, `${JSON.stringify(kept, null, 2)}\n`, { mode: 0o600 })
  } catch (error) {
    throw unwritable(path, error)
  }
}

/** Removes all saved addresses and credentials. */
export function removeLogins(env: NodeJS.ProcessEnv): void {
  const path = loginFile(env)
  try {
    rmSync(path, { force: true })
  } catch (error) {
    // As in readOwn: there is no such file.
    if ((error as NodeJS.ErrnoException).code !== 'ENOTDIR') throw unwritable(path, error)
  }
}

function unwritable(path: string, error: unknown): Error {
  const { code } = error as NodeJS.ErrnoException
  return new Error(
    `${path} cannot be written (${code}). Set XDG_CONFIG_HOME to a folder that you may write to.`,
  )
}
