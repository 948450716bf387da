/** REDIS_URL → a connection for counters: single server, Sentinel or Cluster. */

import { setTimeout as delay } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import { parseRedisUrl, type RedisTarget } from '../../../core/formats/redis-url.ts'
import { type HoldCommands, holdScript, releaseScript, renewScript } from '../../holds/scripts.ts'
import { quickenStrings } from './quicken-strings.ts'
import {
  type AddAnswer,
  type AddArg,
  addScript,
  type CounterAnswer,
  type CounterCommands,
  claimScript,
  readScript,
  resetScript,
  restoreScript,
} from './scripts.ts'

export interface RedisConnection {
  readonly commands: CounterCommands & HoldCommands
  readonly cluster: boolean
  /** Commands sent so far. */
  readonly sent: number
  /** Why there is no usable connection, in the words of client and server. */
  readonly problem: ConnectionProblem | undefined
  /** Whether the connection is up. Waits for it for at most this long, or until it is refused. */
  connected(waitMs: number): Promise<boolean>
  close(): void
}

export interface ConnectionProblem {
  readonly message: string
  /** Waiting will not help: the server or its certificate does not match the URL. */
  readonly isFinal: boolean
}

/** A command without a response after this time counts as lost, and its batch is sent again. */
const answerTimeoutMs = 500
const maxReconnectMs = 500

/** Settings of every connection: the client neither queues nor resends commands. */
const defaults = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  // 0: commands in flight fail at once when a connection ends.
  maxRetriesPerRequest: 0,
  commandTimeout: answerTimeoutMs,
  // An unresponsive connection is closed, so that commands do not pile up on it.
  socketTimeout: answerTimeoutMs,
  connectTimeout: 1_500,
  retryStrategy: (attempt: number) => Math.min(maxReconnectMs, 25 * attempt),
  // After a failover the old primary is a read-only replica: find the new one. Redis 6 reports
  // errors inside a script under another name.
  reconnectOnError: (error: Error) => /READONLY|MASTERDOWN/.test(error.message),
}

/**
 * Connects now, and again whenever the connection is lost. If `url` is a function, it is called for
 * each connection, so that user and password may change. Throws for a URL of unknown form.
 */
export function connectRedis(
  url: string | (() => string),
  onError: (error: unknown) => void,
  timeoutMs = answerTimeoutMs,
): RedisConnection {
  quickenStrings()
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
  client.defineCommand('tollgateReset', { lua: resetScript })
  client.defineCommand('tollgateClaim', { lua: claimScript, numberOfKeys: 1 })
  client.defineCommand('tollgateHold', { lua: holdScript })
  client.defineCommand('tollgateRelease', { lua: releaseScript })
  client.defineCommand('tollgateRenew', { lua: renewScript })
  const scripts = client as unknown as Record<
    'tollgateRead' | 'tollgateRestore',
    (count: number, ...args: (string | number)[]) => Promise<CounterAnswer>
  > & {
    tollgateAdd(count: number, ...args: (string | number)[]): Promise<AddAnswer>
    tollgateReset(count: number, ...args: (string | number)[]): Promise<number>
    tollgateClaim(key: string, owner: string, ms: number): Promise<number>
    tollgateHold(count: number, ...args: (string | number)[]): ReturnType<HoldCommands['hold']>
    tollgateRelease(count: number, ...args: (string | number)[]): Promise<unknown>
    tollgateRenew(count: number, ...args: (string | number)[]): Promise<unknown>
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
      add: (keys, args) =>
        counted(scripts.tollgateAdd(keys.length, ...keys, ...args.map(toArgument))),
      read: (keys, args) => counted(scripts.tollgateRead(keys.length, ...keys, ...args)),
      restore: (keys, args) => counted(scripts.tollgateRestore(keys.length, ...keys, ...args)),
      reset: (keys, args) => counted(scripts.tollgateReset(keys.length, ...keys, ...args)),
      claim: (key, owner, ms) => counted(scripts.tollgateClaim(key, owner, ms)),
      forget: (keys) => counted(client.unlink(...keys)),
      hold: (keys, args) => counted(scripts.tollgateHold(keys.length, ...keys, ...args)),
      renew: (keys, args) => counted(scripts.tollgateRenew(keys.length, ...keys, ...args)),
      release: (keys, args) => counted(scripts.tollgateRelease(keys.length, ...keys, ...args)),
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

function toArgument(arg: AddArg): string | number {
  return typeof arg === 'object' ? JSON.stringify(arg) : arg
}

/** Sets the credentials for the next connection. */
function renewCredentials(client: Redis | Cluster, url: string): void {
  const { username, password } = parseRedisUrl(url)?.options ?? {}
  const options = client instanceof Cluster ? client.options.redisOptions : client.options
  if (options !== undefined) Object.assign(options, { username, password })
}

/** Refused, no such database, or an untrusted certificate. */
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
      clusterRetryStrategy: (attempt) => Math.min(maxReconnectMs, 25 * attempt),
      // Certificates contain names, so a node's name must not be replaced by its address.
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
