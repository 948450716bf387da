/**
 * The refusals that other processes remember. A process asks the others with a notification of Postgres, and each
 * answers with one. Nothing is written to a table, and a refusal itself costs nothing. Processes that do not answer are
 * named, so that an incomplete result is never taken for a complete one.
 */

import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { deflateRaw, inflateRaw } from 'node:zlib'
import {
  isRefusalOf,
  type PastRefusal,
  type PastRefusals,
  type PeerRefusals,
  type ReportedRefusals,
} from '../decide/past-refusal.ts'
import { getOrAdd } from '../formats/lists.ts'
import { parseObject } from '../formats/parse-json.ts'
import { withTimeout } from '../runtime/with-timeout.ts'
import type { Notification } from '../store/postgres/listener.ts'
import { withDeadline } from '../store/postgres/postgres.ts'
import type { Sql } from '../store/postgres/sql.ts'

interface OthersRefusalsOptions {
  readonly sql: Sql
  /** Of this process, in the table of replicas. */
  readonly id: string
  /** What this process answers others with. */
  readonly own: PastRefusals
  readonly clock: () => number
  /** A fault of ours; an outage of the database is none. */
  readonly onFault: (error: unknown) => void
}

interface Question {
  readonly id: string
  /** The process that asks. */
  readonly by: string
  /** The last refusals, at most this many; otherwise the refusal of a request. */
  readonly limit?: number
  readonly requestId?: string
  /** Only of this user, or of this key; anybody's otherwise. */
  readonly user?: string
  readonly keyId?: string | undefined
}

/** A piece of a response: a notification has less than 8,000 bytes. */
interface Chunk {
  readonly id: string
  readonly from: string
  readonly at: number
  readonly of: number
  readonly text: string
}

/** How long a response is waited for, in milliseconds. */
const timeoutMs = 1_000
/** Seconds after which a process that has not polled is not waited for. */
const aliveSeconds = 5
const chunkLength = 7_000
/** Maximum size of an unpacked response: some thousand refusals. */
const maxResponseBytes = 8 * 1_024 * 1_024

const channel = 'tollgate_refusals'
const channelOf = (id: string) => `${channel}_${id}`
const pack = promisify(deflateRaw)
const unpack = promisify(inflateRaw)

/** `hear`: takes the notifications of `channels`, to which the caller listens. */
export function createOthersRefusals(
  options: OthersRefusalsOptions,
): PeerRefusals & { channels: readonly string[]; hear(notification: Notification): void } {
  const { sql, id: self, own, clock, onFault } = options
  const asked = new Map<string, (chunk: Chunk) => void>()

  async function receive({ channel: to, payload = '' }: Notification): Promise<void> {
    const message = readMessage(payload)
    if (message === undefined) return
    if ('from' in message) asked.get(message.id)?.(message)
    else if (to === channel && message.by !== self) await respond(message)
  }

  async function respond({ id, by, limit, requestId = '', user, keyId }: Question): Promise<void> {
    const now = clock()
    const found = own.find(requestId, user, now)
    const refusals =
      limit === undefined
        ? [found].filter((each) => each !== undefined)
        : own.recent(limit, now, user === undefined ? undefined : { user, keyId })
    const text = (await pack(JSON.stringify(refusals.map(toReport), writeExact))).toString('base64')
    const of = Math.max(1, Math.ceil(text.length / chunkLength))
    const chunks = Array.from({ length: of }, (_, at) => {
      const own = text.slice(at * chunkLength, (at + 1) * chunkLength)
      return JSON.stringify({ id, from: self, at, of, text: own } satisfies Chunk)
    })
    // Without a response the other process reports this one as silent.
    await withDeadline(
      sql`select pg_notify(${channelOf(by)}, chunk) from unnest(${chunks}::text[]) as chunk`,
      timeoutMs,
    ).catch(() => {})
  }

  async function ask(question: Omit<Question, 'id' | 'by'>): Promise<ReportedRefusals> {
    const id = randomUUID()
    const responses = collect()
    asked.set(id, responses.add)
    try {
      const text = JSON.stringify({ ...question, id, by: self } satisfies Question)
      // Postgres delivers equal notifications of a transaction once.
      const others = await withDeadline(
        sql<{ id: string; name: string; isAlive: boolean }[]>`
          select id, name, seen_at > now() - make_interval(secs => ${aliveSeconds}) as "isAlive",
            pg_notify(${channel}, ${text})
          from tollgate_replicas where serves_until > now() and id <> ${self}::uuid`,
        timeoutMs,
      )
      await responses.of(others.filter(({ isAlive }) => isAlive).map((other) => other.id))
      const whole = responses.whole()
      const reported = await Promise.all([...whole.values()].map(read))
      const silent = others.filter((other) => !whole.has(other.id)).map(({ name }) => name)
      return { refusals: reported.flat(), silent }
    } catch {
      return { refusals: [], silent: undefined }
    } finally {
      asked.delete(id)
    }
  }

  return {
    find: (requestId, user) => ask({ requestId, ...(user !== undefined && { user }) }),
    async recent(limit, whose) {
      const { refusals, silent } = await ask({ limit, ...whose })
      // A process of an older version sends the refusals of all users.
      return { refusals: refusals.filter((each) => !whose || isRefusalOf(each, whose)), silent }
    },
    channels: [channel, channelOf(self)],
    hear: (notification) => void receive(notification).catch(onFault),
  }
}

/** Undefined if it is not a message of this version. */
function readMessage(payload: string): Question | Chunk | undefined {
  const message = parseObject(payload) as (Question & Chunk) | undefined
  const isOurs = typeof message?.id === 'string' && typeof (message.by ?? message.from) === 'string'
  return isOurs ? message : undefined
}

/** Assembles responses from their chunks. */
function collect() {
  const chunks = new Map<string, string[]>()
  const whole = new Map<string, string>()
  let onWhole = (): void => {}
  return {
    add({ from, at, of, text }: Chunk): void {
      const own = getOrAdd(chunks, from, (): string[] => [])
      own[at] = text
      if (Object.keys(own).length < of) return
      whole.set(from, own.join(''))
      onWhole()
    },
    /** Resolves when all these processes have answered, or after a while. */
    of(ids: readonly string[]): Promise<void> {
      const { promise, resolve } = Promise.withResolvers<void>()
      onWhole = () => {
        if (ids.every((id) => whole.has(id))) resolve()
      }
      onWhole()
      return withTimeout(timeoutMs, promise)
    },
    whole: (): ReadonlyMap<string, string> => whole,
  }
}

async function read(text: string): Promise<readonly PastRefusal[]> {
  const json = await unpack(Buffer.from(text, 'base64'), { maxOutputLength: maxResponseBytes })
  return JSON.parse(json.toString(), readExact)
}

/** Figures of limits may be beyond what JSON's numbers hold. */
function writeExact(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value
}

function readExact(field: string, value: unknown): unknown {
  const isFigure = ['limit', 'used', 'remaining'].includes(field) && typeof value === 'string'
  return isFigure ? BigInt(value.slice(0, -1)) : value
}

/** Without caps: they contain sets and networks, and explain reads the key again. */
function toReport(refusal: PastRefusal): PastRefusal {
  if (refusal.caller?.by !== 'key') return refusal
  const { caps: _, ...caller } = refusal.caller
  return { ...refusal, caller }
}
