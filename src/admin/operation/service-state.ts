/** `GET /v1/admin/state`: this process, the others, and what they depend on. */

import type { FastifyInstance } from 'fastify'
import { refusals } from '../http/schemas.ts'

export interface ServiceState {
  readonly replica: string
  readonly version: string
  readonly ready: boolean
  readonly degraded: readonly string[]
  readonly resources: {
    readonly models: number
    readonly policies: number
    readonly subscriptions: number
    readonly problems: number
    readonly waiting_models: number
    readonly age_seconds: number
  }
  /** undefined: the database does not answer. */
  readonly replicas?: readonly ReplicaState[]
  readonly revocations: {
    readonly confirmed: number
    readonly pending: number
    readonly last_confirmation_seconds?: number
    readonly log_failing: boolean
  }
  readonly database: {
    readonly available: boolean
    readonly key_age_seconds?: number
    readonly grace_seconds: number
  }
  readonly redis?: {
    readonly available: boolean
    readonly unflushed: number
    readonly losses: number
  }
  readonly journal?: {
    readonly failing: boolean
    readonly lines: number
    readonly skipped: number
    readonly unread_bytes: number
  }
}

export interface ReplicaState {
  readonly name: string
  readonly place: string
  readonly answers: boolean
  readonly unseen_seconds: number
  readonly serves_seconds: number
  readonly unread_revocations?: number
}

export interface ServiceStateDeps {
  /** Never rejects; what is unavailable is left out or said. */
  readonly serviceState: () => Promise<ServiceState>
}

const name = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const count = { type: 'integer', minimum: 0 } as const
const seconds = { type: 'number', minimum: 0 } as const

const replica = {
  title: 'ReplicaState',
  type: 'object',
  required: ['name', 'place', 'answers', 'unseen_seconds', 'serves_seconds'],
  properties: {
    name,
    place: { ...name, description: 'Where it runs or ran.' },
    answers: { ...flag, description: 'Whether it is the one that answers.' },
    unseen_seconds: { ...seconds, description: 'Since it last asked for revocations.' },
    serves_seconds: { ...seconds, description: 'How long it may serve without asking again.' },
    unread_revocations: {
      ...count,
      description:
        'Under way: revocations that it has not read, at most 1,000 are counted. Left out before its first.',
    },
  },
} as const

const schema = {
  operationId: 'readState',
  summary: 'Read the state of the service',
  description:
    'For administrators: the process that answers, all processes that a revocation waits for, and the state of database, Redis and journal as this process sees them.',
  tags: ['Administration'],
  security: [{ identityToken: [] }],
  response: {
    200: {
      title: 'ServiceState',
      description: 'The state now.',
      type: 'object',
      required: [
        ...['replica', 'version', 'ready', 'degraded'],
        ...['resources', 'revocations', 'database'],
      ],
      properties: {
        replica: { ...name, description: 'The process that answers.' },
        version: name,
        ready: { ...flag, description: 'As in /readyz.' },
        degraded: {
          type: 'array',
          items: name,
          description: 'Parts that are unavailable, as in /readyz.',
          examples: [['redis']],
        },
        resources: {
          title: 'ResourceCounts',
          type: 'object',
          required: [
            ...['models', 'policies', 'subscriptions', 'problems'],
            ...['waiting_models', 'age_seconds'],
          ],
          properties: {
            models: count,
            policies: count,
            subscriptions: count,
            problems: count,
            waiting_models: { ...count, description: 'Whose cluster Envoy has not loaded.' },
            age_seconds: { ...seconds, description: 'Since they last changed.' },
          },
        },
        replicas: {
          type: 'array',
          items: replica,
          description: 'The one unseen longest first; left out if the database does not answer.',
        },
        revocations: {
          title: 'RevocationState',
          type: 'object',
          required: ['confirmed', 'pending', 'log_failing'],
          properties: {
            confirmed: { ...count, description: 'Answers with this state since the start.' },
            pending: count,
            last_confirmation_seconds: { ...seconds, description: 'How long it took.' },
            log_failing: { ...flag, description: 'Whether REVOCATION_LOG_DIR cannot be written.' },
          },
        },
        database: {
          title: 'DatabaseState',
          type: 'object',
          required: ['available', 'grace_seconds'],
          properties: {
            available: flag,
            key_age_seconds: {
              ...seconds,
              description: 'Since it last confirmed cached keys; left out if it never has.',
            },
            grace_seconds: { ...seconds, description: 'How long keys stay valid without it.' },
          },
        },
        redis: {
          title: 'RedisState',
          type: 'object',
          required: ['available', 'unflushed', 'losses'],
          description: 'Left out if counters are in memory.',
          properties: {
            available: flag,
            unflushed: { ...count, description: 'Counters that it does not have yet.' },
            losses: { ...count, description: 'How often it has lost its data since the start.' },
          },
        },
        journal: {
          title: 'JournalState',
          type: 'object',
          required: ['failing', 'lines', 'skipped', 'unread_bytes'],
          description: 'Left out without USAGE_JOURNAL.',
          properties: {
            failing: flag,
            lines: { ...count, description: 'Read by this process.' },
            skipped: { ...count, description: 'Lines that could not be read.' },
            unread_bytes: count,
          },
        },
      },
    },
    ...refusals(401, 403, 429, 500, 503),
  },
} as const

/** Adds the route. */
export function readState(app: FastifyInstance, { serviceState }: ServiceStateDeps): void {
  app.get('/v1/admin/state', { schema }, () => serviceState())
}
