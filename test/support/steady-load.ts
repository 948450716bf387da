import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'

/**
 * One request of a load: when it was sent and answered (`performance.now()`), and with what status.
 */
export interface Shot {
  readonly sentAt: number
  readonly endedAt: number
  /** The HTTP status; 0 if the connection broke. */
  readonly status: number
  /** The body of an answer whose status is 500 or above. */
  readonly text?: string
}

export interface SteadyLoad {
  /** All answers so far. */
  readonly shots: readonly Shot[]
  /** Sends no more; resolves once all requests are answered. */
  stop(): Promise<readonly Shot[]>
}

export interface LoadRequest {
  readonly method?: string
  readonly url: string
  readonly headers?: Record<string, string>
  readonly body?: string
}

/**
 * Sends `perSecond` requests a second over keep-alive connections, used in turn, so that each notices within a second
 * that its server has failed. It does not wait for earlier answers; `next` creates each request. While `atMost`
 * requests are open it skips turns, so that a slow machine gets fewer requests if no time is measured.
 */
export function startLoad(
  perSecond: number,
  next: (n: number) => LoadRequest,
  atMost = Number.POSITIVE_INFINITY,
): SteadyLoad {
  const agent = new Agent({ keepAlive: true, maxSockets: 256, scheduling: 'fifo' })
  const shots: Shot[] = []
  let running = true
  let open = 0
  const over = (async () => {
    const startedAt = performance.now()
    for (let turn = 0; running; ) {
      const due = ((performance.now() - startedAt) * perSecond) / 1_000
      for (; turn < due; turn += 1) {
        if (open >= atMost) continue
        open += 1
        void sendShot(agent, next(turn)).then((shot) => {
          shots.push(shot)
          open -= 1
        })
      }
      await delay(5)
    }
    while (open > 0) await delay(5)
    agent.destroy()
  })()
  return {
    shots,
    async stop() {
      running = false
      await over
      return shots
    },
  }
}

/**
 * `count` callers, each of which sends the next request on its keep-alive connection when it has received the previous
 * answer and has waited for `pauseMs`.
 */
export function startCallers(
  count: number,
  next: () => LoadRequest,
  pauseMs: () => number = () => 0,
): SteadyLoad {
  const agent = new Agent({ keepAlive: true, maxSockets: count, scheduling: 'fifo' })
  const shots: Shot[] = []
  let running = true
  const callers = Array.from({ length: count }, async () => {
    while (running) {
      shots.push(await sendShot(agent, next()))
      const ms = pauseMs()
      if (ms > 0) await delay(ms)
    }
  })
  return {
    shots,
    async stop() {
      running = false
      await Promise.all(callers)
      agent.destroy()
      return shots
    },
  }
}

function sendShot(
  agent: Agent,
  { url, method = 'POST', headers, body }: LoadRequest,
): Promise<Shot> {
  const sentAt = performance.now()
  return new Promise((settle) => {
    const done = (status: number, more: Pick<Shot, 'text'> = {}): void =>
      settle({ sentAt, endedAt: performance.now(), status, ...more })
    const outgoing = request(url, { agent, method, headers }, (answer: IncomingMessage) => {
      const { statusCode = 0 } = answer
      const pieces: Buffer[] = []
      answer.on('data', (piece: Buffer) => statusCode >= 500 && pieces.push(piece))
      answer.on('end', () =>
        done(statusCode, statusCode >= 500 ? { text: `${Buffer.concat(pieces)}` } : {}),
      )
      answer.on('error', () => done(0))
    })
    outgoing.setTimeout(20_000, () => outgoing.destroy())
    outgoing.on('error', () => done(0))
    outgoing.end(body)
  })
}

/** The number of answers by status. */
export function tally(shots: readonly Shot[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const { status } of shots) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

/** The quantile of the values at this share. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}
