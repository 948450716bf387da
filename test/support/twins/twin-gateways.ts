import http from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { formatAddress } from '../../../src/settings/config.ts'
import { createMigratedDatabase } from '../database.ts'
import { subscription, type WrittenDocument } from '../documents.ts'
import {
  type Gateway,
  type GatewaySettings,
  type KeyOptions,
  type MintedKey,
  startGateway,
} from '../gateway.ts'
import { linesOf } from '../lines.ts'
import { poll } from '../poll.ts'
import { differences, type Seen, type SeenAnswer } from './compare.ts'
import { pairsOf, type RecordingModel, startRecordingModel } from './recording-model.ts'

/** A key that both gateways know. */
export interface TwinKey extends MintedKey {
  readonly user: string
}

/** A request to both. Headers may contain `{key}`. */
export interface TwinRequest {
  readonly method: string
  readonly path: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Buffer
  /** Whether it is sent without a content-length. */
  readonly isChunked?: boolean
}

export interface Twins {
  /** One gateway that decides by its table where it can, and one that asks Check for each request. */
  readonly both: readonly [table: Gateway, check: Gateway]
  readonly model: RecordingModel
  mint(wishes?: KeyOptions): Promise<TwinKey>
  /**
   * Sends a request to both, one after the other; returns the differences. `isEstimates`: only one of them refuses it
   * by a limit, to which estimates are charged that each has learned for itself.
   */
  ask(
    request: TwinRequest,
    key: TwinKey,
  ): Promise<{
    readonly apart: readonly string[]
    readonly seen: Seen
    readonly isEstimates: boolean
  }>
  /** Changes or revokes it through the API of the second; returns once both know. False: the API refused the change. */
  manage(key: TwinKey, method: 'PATCH' | 'DELETE', body?: object): Promise<boolean>
  /** Replaces a resource file of both, and waits until it is in force at both. */
  put(file: string, documents: readonly WrittenDocument[] | undefined): Promise<void>
  /** Number of requests that the first has decided by its table. */
  hits(): number
}

export interface TwinSettings extends Omit<GatewaySettings, 'resources'> {
  /** For the URL of their model server. */
  readonly resources: (backendUrl: string) => readonly WrittenDocument[]
}

/** Starts both; all of it ends with `t`. */
export async function startTwins(t: Test, settings: TwinSettings): Promise<Twins> {
  const model = await startRecordingModel(t)
  // One database, so that keys and values derived from their ids are equal.
  const database = await createMigratedDatabase(t)
  const start = (decisions: string) =>
    startGateway(t, {
      ...settings,
      resources: () => settings.resources(model.url),
      env: {
        // And their mark on requests to models, which is derived from the URL.
        ...{ DATABASE_URL: database, GATEWAY_URL: 'http://twins.example' },
        ...{ ...settings.env, DECISION_TABLE: decisions },
      },
    })
  const both = [await start('on'), await start('off')] as const
  const lines = linesOf(both[0].journal)
  const isEstimated = settings.env?.CHARGE_UNREPORTED === 'true'
  const internals = both.map(({ addresses }) => `http://${formatAddress(addresses.internal)}`)
  let changes = 0

  async function see(gateway: Gateway, request: TwinRequest, key: string): Promise<Seen> {
    model.take()
    const answer = await send(gateway.port, request, key)
    return { answer, received: model.take() }
  }

  return {
    ...{ both, model },
    async mint({ user = both[0].newUser(), ...wishes } = {}) {
      return { user, ...(await both[0].mint({ ...wishes, user })) }
    },
    async ask(request, key) {
      const mine = await see(both[0], request, key.key)
      const its = await see(both[1], request, key.key)
      // Lines of Envoy's log alone are counted a little later.
      const isOfScript = mine.answer.status === 200 && mine.answer.isWhole
      if (mine.received.length > 0 && !isOfScript) await delay(60)
      const isRefused = [mine, its].map(({ answer }) => answer.status === 429)
      const isEstimates = isEstimated && isRefused[0] !== isRefused[1]
      const apart = isEstimates ? [] : differences(mine, its, isEstimated)
      return { apart, seen: mine, isEstimates }
    },
    async manage({ id, user }, method, body) {
      const answer = await both[1].ask(`/v1/api-keys/${id}`, `token-${user}`, {
        method,
        ...(body && { body: JSON.stringify(body) }),
      })
      if (answer.status >= 500) throw new Error(`${method}: ${answer.status} ${answer.text}`)
      return answer.status < 300
    },
    async put(file, documents) {
      changes += 1
      const name = `change-${changes}`
      const mark = subscription(name, { users: ['nobody'] }, { 'llm/sim': [[1, '1h']] })
      for (const gateway of both) {
        gateway.put(file, documents)
        gateway.put('mark.yaml', [mark])
      }
      for (const internal of internals) {
        await poll(async () => {
          const answer = await fetch(`${internal}/internal/v1/resources`)
          return (await answer.text()).includes(`"${name}"`)
        }, `${file} is in force`)
      }
    },
    hits: () => lines.ended().filter(({ by }) => by === 'table').length,
  }
}

/** One request on a connection of its own. */
function send(port: number, request: TwinRequest, key: string): Promise<SeenAnswer> {
  const { method, path, body, isChunked = false } = request
  const headers = [
    ...['host', 'gateway.test', 'connection', 'close'],
    ...request.headers.flatMap(([name, value]) => [name, value.replace('{key}', key)]),
    ...(isChunked
      ? ['transfer-encoding', 'chunked']
      : body.length > 0
        ? ['content-length', String(body.length)]
        : []),
  ]
  return new Promise((resolve) => {
    const none: SeenAnswer = { status: 0, headers: [], body: Buffer.alloc(0), isWhole: false }
    const outgoing = http.request({ port, method, path, headers, agent: false }, (response) => {
      const pieces: Buffer[] = []
      response.on('data', (piece) => pieces.push(piece))
      response.on('error', () => {})
      response.on('close', () =>
        resolve({
          ...{ status: response.statusCode ?? 0, isWhole: response.complete },
          ...{ headers: pairsOf(response.rawHeaders), body: Buffer.concat(pieces) },
        }),
      )
    })
    outgoing.setTimeout(20_000, () => outgoing.destroy())
    outgoing.on('error', () => resolve(none))
    outgoing.end(body)
  })
}
