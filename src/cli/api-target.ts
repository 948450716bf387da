/** The server and credential of the commands that call the REST API. */

import { readFileSync } from 'node:fs'
import { isLoopback } from '../formats/trustworthy.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { type FlagsOf, WrongCall } from './command.ts'
import type { connectionFlags } from './commands/flags.ts'
import { readLogins } from './login-file.ts'
import { printable } from './output.ts'

/** A base URL without a trailing slash, and the credential. */
export interface ApiTarget {
  readonly url: string
  readonly token: string
  /** Where the credential was found, for messages. */
  readonly source?: string
}

/** The gateway of `tollgate up`. */
export const defaultUrl = 'http://127.0.0.1:8000'

/**
 * The address is the flag's, else TOLLGATE_URL, else the address that login has saved. The credential is
 * TOLLGATE_TOKEN, else the content of TOLLGATE_TOKEN_FILE, else the credential that login has saved for this address.
 * Throws an error that names the missing setting.
 */
export function findApiTarget(
  env: NodeJS.ProcessEnv,
  flags: FlagsOf<typeof connectionFlags>,
): ApiTarget {
  // The file is read only if it is needed: a job with both variables may have a HOME that it cannot read.
  const insecure = flags['insecure-http']
  const url = checkUrl(flags.url ?? urlOf(env, () => readLogins(env).current), insecure)
  const { token, source } = findToken(env, () => readLogins(env).tokens.get(url))
  if (!token) {
    throw new Error(
      `There is no credential for ${url}: run tollgate login, or set TOLLGATE_TOKEN or TOLLGATE_TOKEN_FILE.`,
    )
  }
  return { url, token: checkToken(token), source }
}

/** TOLLGATE_URL, else `otherwise`, else the default; throws a readable error if the variable is not an address. */
export function urlOf(env: NodeJS.ProcessEnv, otherwise = (): string | undefined => undefined) {
  const raw = env.TOLLGATE_URL?.trim()
  if (!raw) return otherwise() ?? defaultUrl
  try {
    // The caller decides whether the credential may be sent there.
    return checkUrl(raw, true)
  } catch (error) {
    throw new Error(`TOLLGATE_URL: ${errorMessage(error)}`)
  }
}

/** A saved credential is for one address only; one from a variable is for the address in use. */
function findToken(env: NodeJS.ProcessEnv, kept: () => string | undefined) {
  const { TOLLGATE_TOKEN, TOLLGATE_TOKEN_FILE } = env
  const given = TOLLGATE_TOKEN?.trim()
  if (given) return { token: given, source: 'TOLLGATE_TOKEN' }
  if (TOLLGATE_TOKEN_FILE) {
    return { token: readToken(TOLLGATE_TOKEN_FILE), source: `the file ${TOLLGATE_TOKEN_FILE}` }
  }
  return { token: kept(), source: 'tollgate login' }
}

/** Returns the token; throws if it is malformed. */
export function checkToken(token: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token
  if (token === '') throw new Error('No token was given.')
  throw new Error('The token contains spaces or invalid characters.')
}

function readToken(path: string): string {
  let token: string
  try {
    token = readFileSync(path, 'utf8').trim()
  } catch {
    throw new Error(`The token file ${path} cannot be read.`)
  }
  if (token === '') throw new Error(`The token file ${path} is empty.`)
  return token
}

/**
 * The base URL as written, without a trailing slash and without the `/v1` that OpenAI's clients need. Throws a
 * WrongCall if it is invalid, and another readable error if it is refused.
 */
export function checkUrl(raw: string, insecureHttp: boolean): string {
  const url = URL.parse(raw)
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.search || url.hash) {
    throw new WrongCall(`"${printable(raw)}" is no address; write it like https://gateway.example.`)
  }
  if (url.username || url.password)
    throw new WrongCall('The address must not contain a user or password.')
  if (url.protocol === 'http:' && !isLoopback(url.hostname) && !insecureHttp) {
    throw new Error(
      `${url.origin} would receive your credential in the clear; use https, or allow it with --insecure-http.`,
    )
  }
  return url.href.replace(/\/+$/, '').replace(/\/+v1$/, '')
}
