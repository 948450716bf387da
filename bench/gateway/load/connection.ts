/** A client's connection: one request at a time, sent as raw bytes. */

import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { createHttp1Reader } from '../http1-reader.ts'

export type Connection = Awaited<ReturnType<typeof openConnection>>

const bufferBytes = 65_536
const connectWithinMs = 5_000

/**
 * Opens a connection to the server of a URL, and a new one if it is lost. Rejects if that fails.
 */
export async function openConnection(url: URL) {
  let status = 0
  let done: ((outcome: number | string) => void) | undefined
  let isClosed = false
  let socket = await open()

  function finish(outcome: number | string): void {
    const settle = done
    done = undefined
    settle?.(outcome)
  }

  function open(): Promise<Socket> {
    let isLast = false
    const read = createHttp1Reader({
      onHead(head) {
        status = Number(head.slice(9, 12))
        isLast = /\r\nconnection: *close/i.test(head)
      },
      onEnd() {
        // The server will close this connection.
        if (isLast) opened.destroy()
        finish(status)
      },
    })
    const take = (data: Buffer): void => {
      try {
        read(data)
      } catch (error) {
        finish((error as Error).message)
        opened.destroy()
      }
    }
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const secure = url.protocol === 'https:'
    const port = Number(url.port) || (secure ? 443 : 80)
    const opened = secure
      ? connectTls({ host, port, servername: host, ALPNProtocols: ['http/1.1'] })
      : connectTcp({
          host,
          port,
          noDelay: true,
          onread: { buffer: Buffer.alloc(bufferBytes), callback },
        })
    // One buffer for all reads, so that the load generator makes no garbage.
    function callback(length: number, buffer: Uint8Array): boolean {
      take(buffer.subarray(0, length) as Buffer)
      return true
    }
    if (secure) opened.on('data', take)
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => opened.destroy(new Error('no answer to the attempt to connect')),
        connectWithinMs,
      )
      let problem = 'the connection was closed'
      opened.once(secure ? 'secureConnect' : 'connect', () => {
        clearTimeout(timer)
        resolve(opened)
      })
      opened.on('error', (error) => {
        problem = error.message
      })
      opened.on('close', () => {
        clearTimeout(timer)
        reject(new Error(problem))
        finish(problem)
      })
    })
  }

  return {
    /**
     * Sends a request; call it only after the response to the last one. `whenDone` gets the response's status, or why
     * there is none.
     */
    send(request: Buffer, whenDone: (outcome: number | string) => void): void {
      done = whenDone
      if (socket.writable) {
        socket.write(request)
        return
      }
      open().then(
        (reopened) => {
          socket = reopened
          if (isClosed) reopened.destroy()
          else reopened.write(request)
        },
        (error: Error) => finish(error.message),
      )
    },
    close(): void {
      isClosed = true
      socket.destroy()
    },
  }
}
