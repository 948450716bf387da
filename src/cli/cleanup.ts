/** `tollgate cleanup`: makes the service delete expired ephemeral keys (contract, 3.13). */

import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { withRecordedAddresses } from '../../dev/own-addresses.ts'
import { loopbackIfWildcard, parseAddress } from '../formats/address.ts'
import { parseJson } from '../formats/parse-json.ts'
import { readResponseBody, sendRequest } from '../runtime/http-request.ts'
import { formatAddress, loadConfig } from '../settings/config.ts'
import { type FlagsOf, type Run, Unreachable, WrongCall } from './command.ts'
import type { cleanupFlags } from './commands/operate.ts'
import { formatJson, printable } from './output.ts'

const timeoutMs = 30_000
/** Milliseconds between two attempts. */
const pauseMs = 1_000
/** Larger than any response of the service. */
const maxBytes = 65_536

/** Runs the command; returns the exit status. Rejects with a readable error if nothing was deleted. */
export const cleanup: Run<typeof cleanupFlags> = async ({ operands: [raw], flags }, io) => {
  const call = readTarget(raw ?? defaultOf(io.env), flags)
  const { status, body } = await postWithin(call)
  const response = parseJson(body) as
    | { deletedCount?: unknown; error?: { message?: unknown } }
    | null
    | undefined
  if (status === 200 && Number.isSafeInteger(response?.deletedCount)) {
    const { deletedCount } = response as { deletedCount: number }
    const said = `Deleted ${deletedCount} expired ephemeral keys.`
    io.out(flags.json ? formatJson({ deletedCount }) : said)
    return 0
  }
  const message = response?.error?.message
  const reason = typeof message === 'string' ? `: ${printable(message)}` : ' and no count of keys.'
  throw new Error(`${call.shown} answered ${status}${reason}`)
}

/** The listener of the service on this machine: of the settings, or of `npm start`. */
function defaultOf(env: NodeJS.ProcessEnv): string {
  const settings = withRecordedAddresses(env)
  const { internalAddress, tlsCertFile } = loadConfig(
    Object.fromEntries(
      ['INTERNAL_ADDRESS', 'TLS_CERT_FILE', 'TLS_KEY_FILE'].map((name) => [name, settings[name]]),
    ),
  )
  if ('path' in internalAddress) return formatAddress(internalAddress)
  const { host, port } = internalAddress
  const scheme = tlsCertFile === undefined ? 'http' : 'https'
  return `${scheme}://${formatAddress({ host: loopbackIfWildcard(host), port })}`
}

type Target = ReturnType<typeof readTarget>

function readTarget(raw: string, { wait = '0', ca, cert, key }: FlagsOf<typeof cleanupFlags>) {
  const address = parseAddress(raw)
  // A Unix socket has no TLS.
  const socketPath = address && 'path' in address ? address.path : undefined
  const url = URL.parse(socketPath === undefined ? raw : 'http://localhost')
  const isOnlyHost = url?.pathname === '/' && !url.search && !url.hash && !url.username
  if (url === null || !isOnlyHost || !/^https?:$/.test(url.protocol)) {
    throw new WrongCall('<url> must be an address such as http://127.0.0.1:8081 or unix:/path.')
  }
  if (url.protocol === 'http:' && (ca ?? cert) !== undefined) {
    throw new WrongCall('--ca and --cert require an https address.')
  }
  if ((cert === undefined) !== (key === undefined)) {
    throw new WrongCall('--cert and --key must be given together.')
  }
  if (!/^\d{1,5}$/.test(wait)) throw new WrongCall('--wait must be a whole number of seconds.')
  const shown = socketPath === undefined ? url.origin : `unix:${socketPath}`
  return { url, socketPath, shown, waitMs: Number(wait) * 1_000, ca, cert, key }
}

interface CleanupResponse {
  readonly status: number
  readonly body: string
}

/** A starting service first refuses connections, then responds with 503. */
async function postWithin(call: Target): Promise<CleanupResponse> {
  const { ca, cert, key, waitMs } = call
  const tls = { ca: read('--ca', ca), cert: read('--cert', cert), key: read('--key', key) }
  const until = performance.now() + waitMs
  for (;;) {
    const response = await post(call, tls).catch((error: Error) => error)
    const isAway = response instanceof Error || response.status === 503
    if (isAway && performance.now() + pauseMs < until) await delay(pauseMs)
    else if (response instanceof Error) throw response
    else return response
  }
}

async function post(call: Target, tls: object): Promise<CleanupResponse> {
  const target = new URL('/internal/v1/api-keys/cleanup', call.url)
  const signal = AbortSignal.timeout(timeoutMs)
  const headers = { accept: 'application/json' }
  try {
    const response = await sendRequest(target, {
      ...{ method: 'POST', headers, signal, ...tls },
      ...(call.socketPath !== undefined && { socketPath: call.socketPath }),
    })
    const body = await readResponseBody(response, maxBytes)
    if (body === undefined) throw new Error('the answer is too long')
    return { status: response.statusCode ?? 0, body }
  } catch (error) {
    const reason = signal.aborted ? `no response within ${timeoutMs / 1_000} s` : reasonOf(error)
    const message = `${call.shown} cannot be reached (${reason}).`
    const isAway = signal.aborted || (error as NodeJS.ErrnoException).code !== undefined
    throw isAway ? new Unreachable(message) : new Error(message)
  }
}

function read(option: string, path: string | undefined): Buffer | undefined {
  try {
    return path === undefined ? undefined : readFileSync(path)
  } catch (error) {
    throw new Error(`${option}: ${path} cannot be read (${(error as { code?: string }).code}).`)
  }
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return code ?? message
}
