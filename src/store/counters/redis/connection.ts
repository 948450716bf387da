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
  /** Whether the connection is up, waiting for it for at most so long. */
  connected(waitMs: number): Promise<boolean>
  close(): void
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
  connectTimeout: 2_000,
  retryStrategy: (attempt: number) => Math.min(longestReconnectMs, 25 * attempt),
  // After a failover the old primary is a read-only replica: look for the new one. Redis 6 wraps
  // what happens inside a script in an error of another name.
  reconnectOnError: (error: Error) => /READONLY|MASTERDOWN/.test(error.message),
}

/** Connects, now and whenever the connection is lost. Throws for a URL of no known form. */
export function connectRedis(
  url: string,
  onError: (error: unknown) => void,
  timeoutMs = answerTimeoutMs,
): RedisConnection {
  const target = parseRedisUrl(url)
  if (target === undefined) throw new Error('REDIS_URL has no known form')
  const client = createClient(target, {
    ...defaults,
    commandTimeout: timeoutMs,
    socketTimeout: timeoutMs,
  })
  let sent = 0
  let session = 0
  client.on('error', onError)
  client.on('ready', () => {
    session += 1
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
    async connected(waitMs) {
      const giveUpAt = performance.now() + waitMs
      while (client.status !== 'ready' && performance.now() < giveUpAt) await delay(10)
      return client.status === 'ready'
    },
    close: () => client.disconnect(),
  }
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
