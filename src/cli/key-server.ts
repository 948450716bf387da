/** Which server `tollgate key` talks to, and as whom. */
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parse } from 'yaml'
import { type Field, type FieldProblem, readField, showPath } from '../core/fields.ts'

/** A base URL without a trailing slash, and the credential to show there. */
export interface KeyServer {
  readonly url: string
  readonly token: string
}

export interface KeyServerOptions {
  readonly context?: string | undefined
  readonly url?: string | undefined
  /** Lets the token go over plain http to another machine. */
  readonly insecureHttp?: boolean | undefined
}

interface Candidate {
  readonly url: string | undefined
  readonly token: string | undefined
}

interface Context extends Candidate {
  readonly name: string
}

const DEFAULT_URL = 'http://127.0.0.1:8000'

/**
 * The context that was named; else the environment, if it says anything; else the file's current
 * context. These are never mixed, so that no token gets to a server it was not meant for; only
 * `url` replaces an address. Throws with a sentence that says what to set.
 */
export function findKeyServer(env: NodeJS.ProcessEnv, options: KeyServerOptions): KeyServer {
  const found = options.context === undefined ? fromEnvironment(env) : undefined
  const { url, token } = found ?? fromFile(env, options.context)
  const checked = checkUrl(options.url ?? url ?? DEFAULT_URL, options.insecureHttp ?? false)
  if (!token) {
    throw new Error(
      'There is no identity token: set TOLLGATE_TOKEN, or write a context into ~/.tollgate/config.',
    )
  }
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Error('The token holds blanks or odd characters.')
  return { url: checked, token }
}

function fromEnvironment(env: NodeJS.ProcessEnv): Candidate | undefined {
  const { TOLLGATE_URL, TOLLGATE_TOKEN, TOLLGATE_TOKEN_FILE } = env
  if (!TOLLGATE_URL && !TOLLGATE_TOKEN && !TOLLGATE_TOKEN_FILE) return undefined
  const token = TOLLGATE_TOKEN?.trim() || (TOLLGATE_TOKEN_FILE && readToken(TOLLGATE_TOKEN_FILE))
  return { url: TOLLGATE_URL?.trim() || undefined, token: token || undefined }
}

function fromFile(env: NodeJS.ProcessEnv, wanted: string | undefined): Candidate {
  const path = env.TOLLGATE_CONFIG || join(env.HOME || homedir(), '.tollgate', 'config')
  const text = readConfig(path, Boolean(env.TOLLGATE_CONFIG) || wanted !== undefined)
  if (text === undefined) return { url: undefined, token: undefined }
  const { contexts, current } = parseConfig(path, text)
  const name = wanted ?? current
  if (name === undefined) throw new Error(`${path} names no current-context; choose by --context.`)
  const context = contexts.find((one) => one.name === name)
  if (context === undefined) {
    const known = contexts.map((one) => one.name).join(', ') || 'none'
    throw new Error(`${path} has no context "${name}"; there are: ${known}.`)
  }
  return context
}

function readConfig(path: string, required: boolean): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (!required && (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new Error(`${path} can not be read.`)
  }
}

function parseConfig(
  path: string,
  text: string,
): { readonly contexts: readonly Context[]; readonly current: string | undefined } {
  let value: unknown
  try {
    value = parse(text, { logLevel: 'error', maxAliasCount: 100 })
  } catch {
    throw new Error(`${path} is not valid YAML.`)
  }
  const problems: FieldProblem[] = []
  const root = readField(value, problems)
  root.object()
  const contexts = root
    .at('contexts')
    .list()
    .map((field) => readContext(field, dirname(path)))
  const current = root.at('current-context').string()
  const [first] = problems
  if (first !== undefined) {
    throw new Error(`${path}: ${`${showPath(first.path)} ${first.message}`.trim()}.`)
  }
  return { contexts, current }
}

/** A `tokenFile` is found beside the file that names it. */
function readContext(field: Field, folder: string): Context {
  field.object()
  const tokenFile = field.at('tokenFile').string({ min: 1 })
  const token = field.at('token').string({ min: 1 })
  return {
    name: field.at('name').requiredString({ min: 1 }),
    url: field.at('url').requiredString({ min: 1 }),
    // Read only when it is asked for: the other contexts' files need not be there.
    get token() {
      return tokenFile === undefined ? token : readToken(resolve(folder, tokenFile))
    },
  }
}

function readToken(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    throw new Error(`The token file ${path} can not be read.`)
  }
}

function checkUrl(written: string, insecureHttp: boolean): string {
  const url = URL.parse(written)
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.search || url.hash) {
    throw new Error(`"${written}" is no address; write it like https://gateway.example.`)
  }
  if (url.username || url.password) throw new Error('The address must not hold a user or password.')
  if (url.protocol === 'http:' && !isLoopback(url.hostname) && !insecureHttp) {
    throw new Error(
      `${url.origin} would get your token in the clear; use https, or allow it by --insecure-http.`,
    )
  }
  return url.href.replace(/\/+$/, '')
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host)
}
