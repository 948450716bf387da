/**
 * A lane: one ModelRef, and a proxy port before a model server. All bytes pass through unchanged.
 * The server's work is read from its responses, so it does not depend on what the client received.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** A completion that the model server generated, according to its response. */
export interface Served {
  /** `chat`, or the operation of another handler. */
  readonly kind: string
  /** The model that the server read from the body; undefined if it does not report it. */
  readonly model: string | undefined
  readonly tokens: number
}

export interface Lane {
  /** The namespace of its ModelRef `sim`. */
  readonly name: string
  readonly url: string
  /** All completions so far, in order. */
  readonly served: Served[]
  /**
   * Responses of 500 and above, and connections that the server has closed, since Envoy may be
   * using one.
   */
  faults(): number
  /** Requests that seem to have no response yet. */
  open(): number
  /** The request heads that reached the server, in order. */
  readonly heads: string[]
  /** The time of the last bytes. */
  activeAt(): number
}

const headPattern = /[A-Z]+ \S* HTTP\/1\.1\r\n(?:[^\r\n]+\r\n)+(?=\r\n)/g

/** Finds a completion in `text`, the bytes of responses since the last one. */
export type ReadServed = (
  text: string,
) => { readonly served: Served; readonly end: number } | undefined

/** Reads the header of the servers in this folder: x-served: kind;model;tokens;… */
export const readHeader: ReadServed = (text) => {
  const found = /\r\nx-served: ([^;\r\n]*);([^;\r\n]*);(\d+)[^\r\n]*\r\n/i.exec(text)
  if (found === null) return undefined
  const [all, kind = '', model = '', tokens] = found
  const end = found.index + all.length
  return {
    served: { kind, model: decodeURIComponent(model.replaceAll('+', ' ')), tokens: Number(tokens) },
    end,
  }
}

/**
 * Reads what llama.cpp reports at the end of each completion, streamed or not. It ignores the
 * model's name.
 */
export const readTimings: ReadServed = (text) => {
  const found = /"timings":\{"cache_n":(\d+),"prompt_n":(\d+),.*?"predicted_n":(\d+)/.exec(text)
  if (found === null) return undefined
  const [all, cached, prompt, predicted] = found
  const tokens = Number(cached) + Number(prompt) + Number(predicted)
  const kind = /"object":"chat\.completion/.test(text.slice(0, found.index))
    ? 'chat'
    : 'completions'
  return { served: { kind, model: undefined, tokens }, end: found.index + all.length }
}

export async function openLane(
  t: Test,
  name: string,
  port: number,
  read: ReadServed,
): Promise<Lane> {
  const served: Served[] = []
  const sockets = new Set<Socket>()
  const asked = new Set<Socket>()
  let faults = 0
  let activeAt = 0
  const heads: string[] = []
  const server = createServer((client) => {
    const model = connect(port, '127.0.0.1')
    let text = ''
    let sent = ''
    for (const socket of [client, model]) {
      sockets.add(socket.setNoDelay())
      socket.on('error', () => {})
    }
    client.on('data', (chunk) => {
      activeAt = performance.now()
      sent += chunk.toString('latin1')
      // Only requests from Envoy; anything like a request inside a body has no request id.
      for (const [head] of sent.matchAll(headPattern))
        if (/\nx-request-id:/i.test(head)) heads.push(head)
      sent = sent.slice(Math.max(sent.lastIndexOf('\r\n\r\n') + 4, sent.length - 80_000))
      asked.add(model)
    })
    model.on('data', (chunk) => {
      activeAt = performance.now()
      asked.delete(model)
      text += chunk.toString('latin1')
      if (/^HTTP\/1\.1 5\d\d /m.test(chunk.toString('latin1'))) faults += 1
      for (let found = read(text); found !== undefined; found = read(text)) {
        served.push(found.served)
        text = text.slice(found.end)
      }
      text = text.slice(-20_000)
    })
    client.pipe(model).pipe(client)
    model.on('close', () => {
      if (!client.destroyed) faults += 1
      asked.delete(model)
      client.destroy()
      sockets.delete(model)
    })
    client.on('close', () => {
      model.destroy()
      sockets.delete(client)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return {
    name,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    served,
    faults: () => faults,
    open: () => asked.size,
    heads,
    activeAt: () => activeAt,
  }
}
