/** The server and credential of the commands that call the REST API. */

import { readFileSync } from 'node:fs'
import { isLoopback } from '../core/formats/trustworthy.ts'
import { switches, texts } from './flags.ts'

/** A base URL without a trailing slash, and the credential. */
export interface ApiServer {
  readonly url: string
  readonly token: string
}

export interface ApiServerOptions {
  /** Overrides TOLLGATE_URL. */
  readonly url?: string | undefined
  /** Allows sending the token over plain HTTP to another machine. */
  readonly insecureHttp?: boolean | undefined
}

/** The flags of these commands, for parseArgs. */
export const apiServerFlags = { ...texts('url'), ...switches('json', 'insecure-http') }

/** Their values. */
export interface ApiServerFlags {
  readonly url?: string | undefined
  readonly json?: boolean | undefined
  readonly 'insecure-http'?: boolean | undefined
}

/** Takes them out of the values; the rest belongs to the command. */
export function takeApiServer<Values extends ApiServerFlags>(values: Values) {
  const { url, 'insecure-http': insecureHttp, json = false, ...rest } = values
  const server: ApiServerOptions = { url, insecureHttp }
  return { server, json, rest }
}

/** The gateway of `tollgate up`. */
export const defaultUrl = 'http://127.0.0.1:8000'

/**
 * From TOLLGATE_URL, and TOLLGATE_TOKEN or the file TOLLGATE_TOKEN_FILE. Throws an error that says
 * what to set.
 */
export function findApiServer(env: NodeJS.ProcessEnv, options: ApiServerOptions): ApiServer {
  const { TOLLGATE_URL, TOLLGATE_TOKEN, TOLLGATE_TOKEN_FILE } = env
  const written = options.url ?? (TOLLGATE_URL?.trim() || defaultUrl)
  const url = checkUrl(written, options.insecureHttp ?? false)
  const token = TOLLGATE_TOKEN?.trim() || (TOLLGATE_TOKEN_FILE && readToken(TOLLGATE_TOKEN_FILE))
  if (!token) {
    throw new Error('There is no identity token: set TOLLGATE_TOKEN or TOLLGATE_TOKEN_FILE.')
  }
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new Error('The token contains spaces or invalid characters.')
  return { url, token }
}

function readToken(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    throw new Error(`The token file ${path} cannot be read.`)
  }
}

/**
 * The base URL as written, without a trailing slash and without the `/v1` that OpenAI's clients need. Throws a
 * readable error if it is invalid.
 */
export function checkUrl(written: string, insecureHttp: boolean): string {
  const url = URL.parse(written)
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.search || url.hash) {
    throw new Error(`"${written}" is no address; write it like https://gateway.example.`)
  }
  if (url.username || url.password)
    throw new Error('The address must not contain a user or password.')
  if (url.protocol === 'http:' && !isLoopback(url.hostname) && !insecureHttp) {
    throw new Error(
      `${url.origin} would get your credential in the clear; use https, or allow it by --insecure-http.`,
    )
  }
  return url.href.replace(/\/+$/, '').replace(/\/+v1$/, '')
}
