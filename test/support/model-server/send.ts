/** Sends answers in the requested pieces, pace and encoding. */

import type { ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { constants, createGzip, gzip } from 'node:zlib'
import { type Ask, LONGEST_WAIT_MS } from './ask.ts'
import type { Json, StreamEvent } from './dialect.ts'
import { toText, usageIn } from './usage.ts'

/** One response to write. */
export interface Outlet {
  readonly response: ServerResponse
  readonly ask: Ask
  /** Aborted when the client disconnects. Every function here rejects then. */
  readonly signal: AbortSignal
  /** The request's accept-encoding. */
  readonly acceptEncoding: string
  /** Fields to add to the answer, or to the first event of a stream. */
  readonly extra: Json
  /** Called with each usage before it is written. */
  report(usage: unknown): void
  /** Called with tokens before they are written, reported or not. */
  produce(tokens: number): void
  /** Ends the connection without completing the answer. */
  cut(): void
}

/** Large answers are sent in slices of this size, each once the previous one has been sent. */
const SLICE_BYTES = 64 * 1024

/** Writes one JSON answer. With `dropAfterChunks` the connection is cut halfway through it. */
export async function sendWhole(outlet: Outlet, status: number, payload: Json): Promise<void> {
  const { response, ask, signal } = outlet
  const text = toText({ ...payload, ...outlet.extra }, ask)
  const isZipped = wantsGzip(outlet)
  const bytes = isZipped ? await promisify(gzip)(text) : Buffer.from(text)
  response.statusCode = status
  response.setHeader('content-type', ask.contentType ?? 'application/json')
  if (isZipped) response.setHeader('content-encoding', 'gzip')
  if (ask.splitBytes === undefined) response.setHeader('content-length', bytes.length)
  if (ask.dropAfterChunks !== undefined) {
    response.flushHeaders()
    await write(response, bytes.subarray(0, bytes.length / 2), SLICE_BYTES, signal)
    outlet.cut()
    return
  }
  outlet.report(reported(payload, ask))
  if (ask.splitBytes === undefined && bytes.length <= SLICE_BYTES) {
    response.end(bytes)
    return
  }
  await write(response, bytes, ask.splitBytes ?? SLICE_BYTES, signal)
  response.end()
}

/**
 * Writes a stream, each event separately and after the previous one has been sent. An event that is late does
 * not delay those after it.
 */
export async function sendEvents(outlet: Outlet, events: Iterable<StreamEvent>): Promise<void> {
  const { response, ask, signal } = outlet
  const zipper = wantsGzip(outlet) ? createZipper() : undefined
  response.statusCode = 200
  response.setHeader('content-type', ask.contentType ?? 'text/event-stream; charset=utf-8')
  response.setHeader('cache-control', 'no-cache')
  if (zipper !== undefined) response.setHeader('content-encoding', 'gzip')
  response.flushHeaders()
  let sent = 0
  const startedAt = performance.now()
  for (const event of events) {
    if (sent === ask.hangAfterChunks) await wait(LONGEST_WAIT_MS, undefined, { signal })
    if (sent === ask.hangAfterChunks || sent === ask.dropAfterChunks) {
      outlet.cut()
      return
    }
    if (ask.chunkDelayMs) {
      const waitMs = startedAt + sent * ask.chunkDelayMs - performance.now()
      if (waitMs > 0) await wait(waitMs, undefined, { signal })
    }
    const payload = event.data === '[DONE]' ? undefined : event.data
    const usage = payload === undefined ? undefined : reported(payload, ask)
    const extra = sent === 0 ? outlet.extra : {}
    const data = payload === undefined ? '[DONE]' : toText({ ...payload, ...extra }, ask)
    const bytes = Buffer.from(toFrame(event.event, data, ask.crlf ? '\r\n' : '\n'))
    outlet.report(usage)
    if (event.isPiece) outlet.produce(1)
    const sliceBytes =
      (usage === undefined ? 0 : Number(ask.splitUsageBytes ?? 0)) || ask.splitBytes
    const encoded = zipper === undefined ? bytes : await zipper.add(bytes)
    await write(response, encoded, sliceBytes ?? SLICE_BYTES, signal)
    sent++
  }
  if (zipper !== undefined) await write(response, await zipper.end(), SLICE_BYTES, signal)
  response.end()
}

/** One event in the form of the HTML standard's "Server-sent events", chapter 9.2.5. */
function toFrame(event: string | undefined, data: string, eol: string): string {
  return `${event === undefined ? '' : `event: ${event}${eol}`}data: ${data}${eol}${eol}`
}

/** Raw usage is text and may be invalid JSON; what cannot be read reports nothing. */
function reported(payload: Json, ask: Ask): unknown {
  const usage = usageIn(payload)
  if (usage === undefined || ask.usageRaw === undefined) return usage
  try {
    return JSON.parse(ask.usageRaw)
  } catch {
    return ask.usageRaw
  }
}

/**
 * Writes in slices and waits for each to reach the socket. This separates them on the network (writes of one tick are
 * joined) and waits for a slow reader.
 */
async function write(
  response: ServerResponse,
  bytes: Buffer,
  sliceBytes: number,
  signal: AbortSignal,
): Promise<void> {
  for (let at = 0; at < bytes.length; at += sliceBytes) {
    signal.throwIfAborted()
    await new Promise<void>((resolve, reject) => {
      const leave = () => reject(signal.reason)
      signal.addEventListener('abort', leave, { once: true })
      response.write(bytes.subarray(at, at + sliceBytes), () => {
        signal.removeEventListener('abort', leave)
        resolve()
      })
    })
  }
}

function wantsGzip({ ask, acceptEncoding }: Outlet): boolean {
  if (ask.compress === 'gzip') return true
  if (ask.compress !== 'auto') return false
  return /(^|[\s,])gzip\s*(,|$|;(?!\s*q=0(\.0*)?\s*(,|$)))/i.test(acceptEncoding)
}

/** One gzip member in which every event can be read as soon as it arrives. */
function createZipper() {
  const stream = createGzip()
  let ready: Buffer[] = []
  stream.on('data', (chunk: Buffer) => ready.push(chunk))
  const take = () => {
    const bytes = Buffer.concat(ready)
    ready = []
    return bytes
  }
  return {
    async add(bytes: Buffer): Promise<Buffer> {
      stream.write(bytes)
      await new Promise<void>((resolve) => stream.flush(constants.Z_SYNC_FLUSH, resolve))
      return take()
    },
    async end(): Promise<Buffer> {
      await new Promise<void>((resolve) => stream.once('end', resolve).end())
      return take()
    },
  }
}
