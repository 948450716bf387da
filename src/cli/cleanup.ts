/** `tollgate cleanup`: makes the service delete expired ephemeral keys (contract, 3.13). */

import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { readBody, sendRequest } from '../runtime/http-request.ts'
import { texts } from './flags.ts'
import { printable } from './table.ts'
import { type CommandIo, terminal } from './terminal.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate cleanup [<url>] [--wait <seconds>] [--ca <file>] [--cert <file> --key <file>]

Makes the service delete ephemeral keys that expired more than 30 minutes ago. Each process of the
service does so every 15 minutes anyway; this command is for a visible job.

  <url>           the internal listener, INTERNAL_ADDRESS of any process; default http://127.0.0.1:8081
  --wait          how long to try again while the service cannot be reached or answers 503; default 0
  --ca            the certificate authorities (PEM) to trust instead of the default ones
  --cert, --key   the client certificate (PEM), if the listener requires one (TLS_CLIENT_CA_FILE)

Exit status: 0 done, 1 the service refused or cannot be reached, 2 invalid arguments.`

const timeoutMs = 30_000
/** Between two attempts. */
const pauseMs = 1_000
/** More than any response of ours. */
const maxBytes = 65_536

/**
 * Runs the command; returns the exit status. Rejects with a readable error if nothing was deleted.
 */
export async function cleanup(
  args: readonly string[],
  io: Pick<CommandIo, 'out' | 'err'> = terminal,
): Promise<number> {
  const call = readCall(args, usage, readArguments, io)
  if (typeof call === 'number') return call
  const { status, body } = await postWithin(call)
  const answer = parse(body) as { deletedCount?: unknown; error?: { message?: unknown } } | null
  if (status === 200 && Number.isSafeInteger(answer?.deletedCount)) {
    io.out(`Deleted ${answer?.deletedCount} expired ephemeral keys.`)
    return 0
  }
  const message = answer?.error?.message
  const reason = typeof message === 'string' ? `: ${printable(message)}` : ' and no count of keys.'
  throw new Error(`${call.url.origin} answered ${status}${reason}`)
}

interface Call {
  readonly url: URL
  readonly waitMs: number
  readonly ca: string | undefined
  readonly cert: string | undefined
  readonly key: string | undefined
}

function readArguments(args: string[]): Call | undefined {
  const { values, positionals } = parseArgs({
    args,
    options: {
      wait: { type: 'string', default: '0' },
      ...texts('ca', 'cert', 'key'),
    },
    allowPositionals: true,
  })
  const [written = 'http://127.0.0.1:8081', ...rest] = positionals
  const { ca, cert, key } = values
  const url = URL.parse(written)
  const fits = url?.protocol === 'https:' || (url?.protocol === 'http:' && !ca && !cert)
  const isBare = url?.pathname === '/' && !url.search && !url.hash && !url.username
  const isWait = /^\d{1,5}$/.test(values.wait)
  const isPair = (cert === undefined) === (key === undefined)
  if (!fits || !isBare || !isWait || !isPair || rest.length > 0) return undefined
  return { url, waitMs: Number(values.wait) * 1_000, ca, cert, key }
}

interface Answer {
  readonly status: number
  readonly body: string
}

/** A service that starts is out of reach at first, then not ready (503). */
async function postWithin(call: Call): Promise<Answer> {
  const { ca, cert, key, waitMs } = call
  const tls = { ca: read('--ca', ca), cert: read('--cert', cert), key: read('--key', key) }
  const until = performance.now() + waitMs
  for (;;) {
    const answer = await post(call, tls).catch((error: Error) => error)
    const isAway = answer instanceof Error || answer.status === 503
    if (isAway && performance.now() + pauseMs < until) await delay(pauseMs)
    else if (answer instanceof Error) throw answer
    else return answer
  }
}

async function post(call: Call, tls: object): Promise<Answer> {
  const target = new URL('/internal/v1/api-keys/cleanup', call.url)
  const signal = AbortSignal.timeout(timeoutMs)
  const headers = { accept: 'application/json' }
  try {
    const response = await sendRequest(target, { method: 'POST', headers, signal, ...tls })
    const body = await readBody(response, maxBytes)
    if (body === undefined) throw new Error('the answer is too long')
    return { status: response.statusCode ?? 0, body }
  } catch (error) {
    const reason = signal.aborted ? `no answer within ${timeoutMs / 1_000} s` : reasonOf(error)
    throw new Error(`${call.url.origin} cannot be reached (${reason}).`)
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

function parse(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}
