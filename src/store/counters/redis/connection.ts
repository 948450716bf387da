/** REDIS_URL → a connection that counters can be asked over: single, Sentinel or Cluster. */

import { setTimeout as delay } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import {
  type AddAnswer,
  addScript,
  type CounterAnswer,
  type CounterCommands,
  claimScript,
  readScript,
  restoreScript,
} from './scripts.ts'
import { parseRedisUrl, type RedisTarget } from './url.ts'

export interface RedisConnection {
  readonly commands: CounterCommands
  readonly cluster: boolean
  /** Commands sent so far. */
  readonly sent: number
  /** Why there is no connection, or none of use, in the words of client and server. */
  readonly problem: ConnectionProblem | undefined
  /** Whether the connection is up, waiting for it for at most so long, or until it is refused. */
  connected(waitMs: number): Promise<boolean>
  close(): void
}

export interface ConnectionProblem {
  readonly message: string
  /** It will not go away by waiting: the server, or its certificate, is not what the URL says. */
  readonly isFinal: boolean
}

/** After so long without an answer a command counts as lost, and its batch is sent again. */
const answerTimeoutMs = 500
const longestReconnectMs = 500

/** What every connection keeps to: nothing waits in a queue of the client's, nothing is resent by it. */
const defaults = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  // 0: what was under way when a connection ended fails at once.
  maxRetriesPerRequest: 0,
  commandTimeout: answerTimeoutMs,
  // A connection that does not answer is given up, or what is sent on it would pile up.
  socketTimeout: answerTimeoutMs,
  connectTimeout: 1_500,
  retryStrategy: (attempt: number) => Math.min(longestReconnectMs, 25 * attempt),
  // After a failover the old primary is a read-only replica: look for the new one. Redis 6 wraps
  // what happens inside a script in an error of another name.
  reconnectOnError: (error: Error) => /READONLY|MASTERDOWN/.test(error.message),
}

/**
 * Connects, now and whenever the connection is lost; where `url` is a function, with the user and
 * password that it has then. Throws for a URL of no known form.
 */
export function connectRedis(
  url: string | (() => string),
  onError: (error: unknown) => void,
  timeoutMs = answerTimeoutMs,
): RedisConnection {
  const urlNow = typeof url === 'string' ? () => url : url
  const target = parseRedisUrl(urlNow())
  if (target === undefined) throw new Error('REDIS_URL has no known form')
  let problem: ConnectionProblem | undefined
  const client: Redis | Cluster = createClient(target, {
    ...defaults,
    retryStrategy(attempt) {
      renewCredentials(client, urlNow())
      return defaults.retryStrategy(attempt)
    },
    commandTimeout: timeoutMs,
    socketTimeout: timeoutMs,
  })
  let sent = 0
  let session = 0
  client.on('error', (error: unknown) => {
    problem = problemOf(error)
    onError(error)
  })
  client.on('connect', () => {
    problem = undefined
  })
  client.on('ready', () => {
    session += 1
  })
  client.on('close', () => {
    if (client instanceof Cluster) renewCredentials(client, urlNow())
  })
  // A Cluster stays ready while its nodes come and go.
  client.on('+node', () => {
    session += 1
  })
  client.defineCommand('tollgateAdd', { lua: addScript })
  client.defineCommand('tollgateRead', { lua: readScript })
  client.defineCommand('tollgateRestore', { lua: restoreScript })
  client.defineCommand('tollgateClaim', { lua: claimScript, numberOfKeys: 1 })
  const scripts = client as unknown as Record<
    'tollgateRead' | 'tollgateRestore',
    (count: number, ...args: (string | number)[]) => Promise<CounterAnswer>
  > & {
    tollgateAdd(count: number, ...args: (string | number)[]): Promise<AddAnswer>
    tollgateClaim(key: string, owner: string, ms: number): Promise<number>
  }

  function counted<Answer>(answer: Promise<Answer>): Promise<Answer> {
    sent += 1
    return answer
  }

  return {
    cluster: target.kind === 'cluster',
    get sent() {
      return sent
    },
    commands: {
      add: (keys, args) => counted(scripts.tollgateAdd(keys.length, ...keys, ...args)),
      read: (keys, args) => counted(scripts.tollgateRead(keys.length, ...keys, ...args)),
      restore: (keys, args) => counted(scripts.tollgateRestore(keys.length, ...keys, ...args)),
      claim: (key, owner, ms) => counted(scripts.tollgateClaim(key, owner, ms)),
      forget: (keys) => counted(client.unlink(...keys)),
      get session() {
        return session
      },
    },
    get problem() {
      return problem
    },
    async connected(waitMs) {
      const giveUpAt = performance.now() + waitMs
      const isOver = () => client.status === 'ready' || problem?.isFinal
      while (!isOver() && performance.now() < giveUpAt) await delay(10)
      return client.status === 'ready'
    },
    close: () => client.disconnect(),
  }
}

/** What the next connection says who it is by. */
function renewCredentials(client: Redis | Cluster, url: string): void {
  const { username, password } = parseRedisUrl(url)?.options ?? {}
  const options = client instanceof Cluster ? client.options.redisOptions : client.options
  if (options !== undefined) Object.assign(options, { username, password })
}

/** Not let in, no such database, or a certificate that nobody vouches for. */
function problemOf(error: unknown): ConnectionProblem {
  const { message, code } = error as NodeJS.ErrnoException
  const { lastNodeError } = error as { lastNodeError?: Error }
  const text = [message, lastNodeError?.message].filter(Boolean).join(' ')
  const isRefused = /\b(WRONGPASS|NOAUTH|NOPERM|invalid password|DB index)\b/.test(text)
  const isDistrusted = /CERT|ERR_TLS|ERR_SSL|UNABLE_TO|SELF_SIGNED/.test(code ?? '')
  return { message: text, isFinal: isRefused || isDistrusted }
}

function createClient(
  { kind, nodes, name, options: own }: RedisTarget,
  options: typeof defaults,
): Redis | Cluster {
  if (kind === 'cluster') {
    return new Cluster([...nodes], {
      enableOfflineQueue: false,
      redisOptions: { ...options, ...own },
      clusterRetryStrategy: (attempt) => Math.min(longestReconnectMs, 25 * attempt),
      // A certificate holds names, so a node's name is not to be replaced by its address.
      ...(own.tls && {
        dnsLookup: (address: string, done: (error: null, address: string) => void) =>
          done(null, address),
      }),
    })
  }
  if (kind === 'sentinel') {
    return new Redis({
      ...options,
      ...own,
      ...(own.tls && { enableTLSForSentinelMode: true, sentinelTLS: own.tls }),
      sentinels: [...nodes],
      name,
    })
  }
  const [node] = nodes
  return new Redis({ ...options, ...own, ...(node as (typeof nodes)[number]) })
}
