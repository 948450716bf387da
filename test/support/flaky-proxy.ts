import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Random } from './random.ts'

/** A connection between client and server on which faults occur, as `random` decides. */
export interface FlakyProxy {
  /** `redis://127.0.0.1:port` */
  readonly url: string
  /** How many scripts each fault has affected. */
  readonly done: Record<Mishap, number>
  /** Ends all connections; new ones, and delayed commands, go to the server on this port. */
  turnTo(port: number): void
  /** Passes everything without faults from now on, after delivering delayed data. */
  heal(): Promise<void>
  close(): Promise<void>
}

const mishaps = [
  'pass',
  /** The server receives it, but its answer is lost, or the connection ends instead. */
  'loseAnswer',
  'cutAnswer',
  /** The server receives none of it, or half. */
  'cutBefore',
  'cutHalf',
  'delay',
  /** The server receives it again on another connection, at once or later. */
  'twice',
  'twiceLater',
  /** The client loses its connection; the server receives it afterwards on another one. */
  'holdBack',
] as const
type Mishap = (typeof mishaps)[number]

const laterMs = 200

/** Starts a proxy for the server on `first`. About half of the scripts pass without a fault. */
export async function startFlakyProxy(
  t: Pick<Test, 'teardown'>,
  first: number,
  random: Random,
): Promise<FlakyProxy> {
  let port = first
  const done = Object.fromEntries(mishaps.map((mishap) => [mishap, 0])) as Record<Mishap, number>
  const sockets = new Set<Socket>()
  const held = new Map<NodeJS.Timeout, () => Promise<void>>()
  const delivering = new Set<Promise<void>>()
  let healthy = false

  function pick(): Mishap {
    if (healthy || random.below(2) === 0) return 'pass'
    return mishaps[random.below(mishaps.length)] as Mishap
  }

  /** Sends the server a command on another connection and waits for its answer. */
  function deliver(command: Buffer): Promise<void> {
    const delivery = (async () => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      socket.write(command)
      await Promise.race([once(socket, 'data'), once(socket, 'close')]).catch(() => {})
      socket.destroy()
    })()
    delivering.add(delivery)
    return delivery.finally(() => delivering.delete(delivery))
  }

  function deliverLater(command: Buffer): void {
    const timer = setTimeout(() => {
      held.delete(timer)
      void deliver(command)
    }, 1 + random.below(laterMs))
    held.set(timer, () => deliver(command))
  }

  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    let mute = false
    let answers: Promise<unknown> = Promise.resolve()
    const end = (): void => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', end)
      socket.on('close', () => {
        sockets.delete(socket)
        end()
      })
    }
    upstream.on('data', (answer) => {
      if (mute) return
      // In order: a connection may lose its end, but not its order.
      answers = answers.then(() => client.write(answer))
    })

    const act: Record<Mishap, (command: Buffer) => void> = {
      pass: (command) => upstream.write(command),
      loseAnswer(command) {
        mute = true
        upstream.write(command)
      },
      cutAnswer(command) {
        mute = true
        upstream.write(command)
        upstream.once('data', end)
      },
      cutBefore: end,
      cutHalf(command) {
        upstream.write(command.subarray(0, 1 + random.below(command.length - 1)), end)
      },
      delay(command) {
        answers = answers.then(() => delay(random.below(60)))
        upstream.write(command)
      },
      twice(command) {
        upstream.write(command)
        void deliver(command)
      },
      twiceLater(command) {
        upstream.write(command)
        deliverLater(command)
      },
      holdBack(command) {
        end()
        deliverLater(command)
      },
    }

    let rest: Buffer = Buffer.alloc(0)
    client.on('data', (data) => {
      rest = Buffer.concat([rest, data])
      for (let length = commandLength(rest); length > 0; length = commandLength(rest)) {
        const command = rest.subarray(0, length)
        rest = rest.subarray(length)
        const isScript = /^\*\d+\r\n\$\d+\r\neval/i.test(command.toString('latin1', 0, 40))
        const mishap = isScript ? pick() : 'pass'
        if (isScript) done[mishap] += 1
        if (!client.destroyed) act[mishap](Buffer.from(command))
      }
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const own = typeof address === 'object' && address !== null ? address.port : 0

  async function close(): Promise<void> {
    for (const timer of held.keys()) clearTimeout(timer)
    held.clear()
    for (const socket of sockets) socket.destroy()
    if (server.listening) await new Promise((closed) => server.close(closed))
  }
  t.teardown(close)
  return {
    url: `redis://127.0.0.1:${own}`,
    done,
    turnTo(next) {
      port = next
      for (const socket of sockets) socket.destroy()
    },
    async heal() {
      healthy = true
      for (const [timer, now] of held) {
        clearTimeout(timer)
        void now()
      }
      held.clear()
      await Promise.all(delivering)
    },
    close,
  }
}

/**
 * The length in bytes of the first complete command (RESP: an array of bulk strings); 0 if it is
 * not complete yet.
 */
function commandLength(bytes: Buffer): number {
  let at = 0
  const line = (): number => {
    const end = bytes.indexOf('\r\n', at)
    if (end < 0) return Number.NaN
    const value = Number(bytes.toString('latin1', at + 1, end))
    at = end + 2
    return value
  }
  const count = line()
  for (let i = 0; i < count; i += 1) {
    const length = line()
    at += length + 2
  }
  return Number.isNaN(count) || Number.isNaN(at) || at > bytes.length ? 0 : at
}
