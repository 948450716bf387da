import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'

/** A proxy to a server that can cut, refuse or swallow connections. */
export interface TcpProxy {
  /** Where it listens. */
  readonly port: number
  /** The URL that leads through the proxy to the server of `url`. */
  through(url: string): string
  /** Ends all connections; new ones are accepted. */
  cut(): void
  /** Ends all connections with RST, as from a machine that has just restarted. */
  reset(): void
  /** Ends all connections and refuses new ones, until `heal`. */
  refuse(): void
  /** From now on forwards nothing in either direction, without an error, until `heal` (or `false`). */
  swallow(isSwallowing?: boolean): void
  /** Delays everything by this time, in milliseconds; 0 ends that. */
  slow(ms: number): void
  /** Forwards again; swallowed data is lost, and its connections are cut. */
  heal(): void
}

export interface TcpProxyOptions {
  /** For each connection, a function that may change the server's answers. */
  readonly onAnswers?: () => (answers: Buffer) => Buffer
  /** Where it listens; by default on a free port of 127.0.0.1. */
  readonly at?: { readonly host: string; readonly port: number }
}

/** Starts a proxy for a server, by default on this machine, until `t` ends. */
export async function startTcpProxy(
  t: Pick<Test, 'teardown'>,
  server: number | { readonly host: string; readonly port: number },
  {
    onAnswers = () => (answers) => answers,
    at = { host: '127.0.0.1', port: 0 },
  }: TcpProxyOptions = {},
): Promise<TcpProxy> {
  const target = typeof server === 'number' ? { host: '127.0.0.1', port: server } : server
  const sockets = new Set<Socket>()
  let lateMs = 0
  let doing: 'pass' | 'refuse' | 'swallow' = 'pass'

  function join(from: Socket, to: Socket, change: (data: Buffer) => Buffer): void {
    sockets.add(from)
    let waiting = 0
    let turn: Promise<void> = Promise.resolve()
    from.on('data', (data) => {
      if (doing === 'swallow') return
      if (lateMs === 0 && waiting === 0) return void to.write(change(data))
      const dueAt = performance.now() + lateMs
      waiting += 1
      turn = turn.then(async () => {
        await delay(Math.max(0, dueAt - performance.now()))
        to.write(change(data))
        waiting -= 1
      })
    })
    from.on('error', () => {})
    from.on('close', () => {
      sockets.delete(from)
      if (doing !== 'swallow') to.destroy()
    })
  }

  function cut(): void {
    for (const socket of sockets) socket.destroy()
  }

  const door = createServer((client) => {
    if (doing === 'refuse') return void client.destroy()
    const upstream = connect(target.port, target.host)
    join(client, upstream, (data) => data)
    join(upstream, client, onAnswers())
  })
  door.listen(at)
  await once(door, 'listening')
  const { port } = door.address() as AddressInfo
  t.teardown(() => {
    doing = 'refuse'
    cut()
    door.close()
  })
  function heal(): void {
    if (doing === 'swallow') cut()
    doing = 'pass'
  }

  return {
    port,
    through(url) {
      const there = new URL(url)
      there.host = `127.0.0.1:${port}`
      return there.href
    },
    cut,
    reset() {
      for (const socket of sockets) socket.resetAndDestroy()
    },
    refuse() {
      doing = 'refuse'
      cut()
    },
    swallow(isSwallowing = true) {
      if (!isSwallowing) return heal()
      doing = 'swallow'
    },
    slow(ms) {
      lateMs = ms
    },
    heal,
  }
}
