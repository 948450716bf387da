/** REDIS_URL → a connection for counters: single server, Sentinel or Cluster. */

import { setTimeout as delay } from 'node:timers/promises'
import { type ChainableCommander, Cluster, Redis } from 'ioredis'
import { parseRedisUrl, type RedisTarget } from '../../formats/redis-url.ts'
import { causeMessage, connectionClosed, errorMessage } from '../../runtime/error-message.ts'
import { restAfter } from '../../runtime/loop.ts'
import { type HoldCommands, holdScripts } from '../holds/hold-scripts.ts'
import { type ScriptCall, type SumCommands, sumScripts, type WriteResult } from '../sums/scripts.ts'
import { type RightsCommands, rightsKey, rightsScript } from './rights-script.ts'
import { warmUpStringMethods } from './warm-up-strings.ts'

export type RedisConnection = ReturnType<typeof connectRedis>

interface ConnectionProblem {
  readonly message: string
  /** Waiting will not help: the server or its certificate does not match the URL. */
  readonly isFinal: boolean
}

/** A command without a response after this time counts as lost; sums are then sent again, with newer values. */
const responseTimeoutMs = 500
const reconnects = { firstMs: 25, maxMs: 500 }

/** Settings of every connection: the client neither queues nor resends commands. */
const defaults = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  // With 0, commands in flight fail at once when a connection ends.
  maxRetriesPerRequest: 0,
  commandTimeout: responseTimeoutMs,
  // An unresponsive connection is closed, so that commands do not pile up on it.
  socketTimeout: responseTimeoutMs,
  connectTimeout: 1_500,
  retryStrategy: (attempt: number) => restAfter(attempt, reconnects),
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
  timeoutMs = responseTimeoutMs,
) {
  warmUpStringMethods()
  const urlNow = typeof url === 'string' ? () => url : url
  const target = parseRedisUrl(urlNow())
  if (target === undefined) throw new Error('REDIS_URL has an unknown form')
  let problem: ConnectionProblem | undefined
  const client: Redis | Cluster = createClient(target, {
    ...defaults,
    retryStrategy(attempt) {
      renewCredentials(client as Redis, urlNow())
      return defaults.retryStrategy(attempt)
    },
    commandTimeout: timeoutMs,
    socketTimeout: timeoutMs,
  })
  let sent = 0
  client.on('error', (error: unknown) => {
    const { lastNodeError } = error as { lastNodeError?: Error }
    // The node's own error says more.
    if (problem === undefined || causeMessage(lastNodeError) !== connectionClosed)
      problem = problemOf(error)
    onError(error)
  })
  client.on('connect', () => {
    problem = undefined
  })
  if (client instanceof Cluster) {
    limitTime(client, timeoutMs)
    const noteAt = (address: string) => (error: Error) => {
      const isReason = causeMessage(error) !== connectionClosed
      if (isReason && client.status !== 'ready')
        problem = { message: `${address}: ${errorMessage(error)}`, isFinal: false }
    }
    // The address that a node announces may be unreachable, although the one in the URL is not.
    client.on('node error', (error: Error, address: string) => noteAt(address)(error))
    client.on('+node', (added: Redis) => {
      // Each node has a copy of the options, also for the connections by which the client asks it for the other nodes.
      for (const node of client.nodes()) renewCredentials(node, urlNow())
      guardCommands(added)
      // It asks for the other nodes by a connection of its own, whose errors it drops.
      const { duplicate, options } = added
      added.duplicate = (...own) =>
        duplicate.apply(added, own).on('error', noteAt(`${options.host}:${options.port}`))
    })
  }

  const scripts = { ...sumScripts, ...holdScripts, ...rightsScript }
  type Script = keyof typeof scripts
  /** Takes the number of keys, the keys, and the arguments. */
  type Runner = Record<Script, (count: number, ...rest: readonly (string | number)[]) => unknown>

  function run(by: unknown, script: Script, [keys, args]: ScriptCall): unknown {
    return (by as Runner)[script](keys.length, ...keys, ...args)
  }

  const commands = Object.fromEntries(
    Object.entries(scripts).map(([name, lua]) => {
      client.defineCommand(name, { lua })
      return [
        name,
        (...call: ScriptCall) => {
          sent += 1
          return run(client, name as Script, call)
        },
      ]
    }),
  ) as unknown as Omit<SumCommands, 'writeAndRelease'> & HoldCommands & RightsCommands

  async function writeAndRelease(
    write: ScriptCall,
    releases: readonly ScriptCall[],
  ): Promise<WriteResult> {
    sent += 1
    const multi = client.multi()
    run(multi, 'writeSums', write)
    for (const each of releases) run(multi, 'releaseHolds', each)
    const results = await execute(multi)
    const error = results?.find(([error]) => error !== null)?.[0]
    if (error === undefined) return results?.[0]?.[1] as WriteResult
    if (!error?.message.startsWith('NOSCRIPT')) throw error
    // The server has lost a script, which a separate call reloads. Meanwhile a request may be counted twice, but is
    // never missed.
    const result = await commands.writeSums(...write)
    for (const each of releases) await commands.releaseHolds(...each)
    return result
  }

  /** Whether the server responds, and its user may run every command; else `problem` says why. */
  async function isAllowed(): Promise<boolean> {
    try {
      const call: ScriptCall = [[rightsKey], []]
      const refused = await commands.refusedCommands([rightsKey], [])
      const multi = client.multi()
      run(multi, 'refusedCommands', call)
      await execute(multi)
      if (refused.length === 0) return true
      const message = `its user may not run ${refused.join(', ')} on keys tollgate:* (docs/redis.md)`
      problem = { message, isFinal: true }
    } catch (error) {
      problem = problemOf(error)
    }
    return false
  }

  return {
    cluster: target.kind === 'cluster',
    /** Commands sent so far. */
    get sent(): number {
      return sent
    },
    commands: { ...commands, writeAndRelease },
    /** Why there is no usable connection, with the message of client or server. */
    get problem(): ConnectionProblem | undefined {
      return problem
    },
    /**
     * Resolves once the connection is up or refused, or this time (ms) has passed, with whether it is up. It is refused
     * if its user lacks rights.
     */
    async connected(waitMs: number): Promise<boolean> {
      const giveUpAt = performance.now() + waitMs
      while (!problem?.isFinal && performance.now() < giveUpAt) {
        if (client.status === 'ready' && (await isAllowed())) return true
        await delay(10)
      }
      return false
    },
    close: (): void => client.disconnect(),
  }
}

/** Runs a transaction; rejects with the error of a command that was not queued, which its own error hides. */
async function execute(multi: ChainableCommander) {
  return await multi.exec().catch((error: Error & { previousErrors?: readonly Error[] }) => {
    throw error.previousErrors?.[0] ?? error
  })
}

/** Sets the credentials for the next connection. */
function renewCredentials({ options }: Redis, url: string): void {
  const { username, password } = parseRedisUrl(url)?.options ?? {}
  Object.assign(options, { username, password })
}

/** A command also waits for redirections and for connections to nodes, together no longer than this (ms). */
function limitTime(cluster: Cluster, timeoutMs: number): void {
  const { sendCommand } = cluster
  cluster.sendCommand = (command, ...rest) => {
    command.setTimeout(timeoutMs)
    return sendCommand.call(cluster, command, ...rest)
  }
}

/**
 * The client sends a command of a Cluster again after a failure, even once its caller knows that it failed. A hold that
 * is taken then would last until its lease ends.
 */
function guardCommands(node: Redis): void {
  const { sendCommand } = node
  node.sendCommand = (command, stream) => {
    // Those of a transaction are written together, or not at all: without one, the responses to later commands shift.
    if (command.isSettled && stream === undefined) return command.promise
    // The client itself sends this before a command for a slot that moves, and ends the process if it fails.
    if (command.name === 'asking') command.promise.catch(() => {})
    return sendCommand.call(node, command, stream)
  }
}

type SentinelConnections = Record<'connectToSentinel', (...own: unknown[]) => Redis>

/** Recognizes refused credentials and commands, a database that does not exist, and untrusted certificates. */
function problemOf(error: unknown): ConnectionProblem {
  const { message, code } = error as NodeJS.ErrnoException
  const { lastNodeError } = error as { lastNodeError?: Error }
  const text = [message, lastNodeError?.message].filter(Boolean).join(' ')
  const refusals = /\b(WRONGPASS|NOAUTH|NOPERM|invalid password|DB index|unknown command)\b/
  const isDistrusted = /CERT|ERR_TLS|ERR_SSL|UNABLE_TO|SELF_SIGNED/.test(code ?? '')
  return { message: text, isFinal: refusals.test(text) || isDistrusted }
}

function createClient(
  { kind, nodes, name, options: own }: RedisTarget,
  options: typeof defaults,
): Redis | Cluster {
  if (kind === 'cluster') {
    return new Cluster([...nodes], {
      enableOfflineQueue: false,
      redisOptions: { ...options, ...own },
      clusterRetryStrategy: (attempt) => restAfter(attempt, reconnects),
      // A Cluster that is down for a slot stays so for seconds.
      retryDelayOnClusterDown: 0,
      // Each connection resolves the name of its node: a name without an address is passed over, and certificates contain
      // names.
      dnsLookup: (name: string, done: (error: null, name: string) => void) => done(null, name),
    })
  }
  if (kind === 'sentinel') {
    const client = new Redis({
      ...options,
      ...own,
      ...(own.tls && { enableTLSForSentinelMode: true, sentinelTLS: own.tls }),
      // A sentinel that hangs is passed over.
      sentinelCommandTimeout: responseTimeoutMs,
      // For some ten seconds after a planned failover the old primary still accepts what it then loses.
      failoverDetector: true,
      sentinelReconnectStrategy: defaults.retryStrategy,
      sentinels: [...nodes],
      name,
    })
    const { connector } = client as unknown as { connector: SentinelConnections }
    const { connectToSentinel: connect } = connector
    // The client would print errors of the connections that wait for a failover.
    connector.connectToSentinel = (...own) => connect.apply(connector, own).on('error', () => {})
    return client
  }
  const [node] = nodes
  // `connected` asks more than the client's own check, which needs the right to INFO and prints a line without it.
  const checked = { ...options, enableReadyCheck: false }
  return new Redis({ ...checked, ...own, ...(node as (typeof nodes)[number]) })
}
