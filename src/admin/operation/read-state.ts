/** `GET /v1/admin/state`: this process, the others, and their dependencies. */

import type { FromSchema } from 'json-schema-to-ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { object, optional, responses, strings } from '../http/schema.ts'

export interface ServiceStateDeps {
  /** Never rejects; leaves out or reports unavailable parts. */
  readonly serviceState: () => Promise<Omit<ServiceState, 'open_limit_requests'>>
}

const name = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const count = { type: 'integer', minimum: 0 } as const
const seconds = { type: 'number', minimum: 0 } as const

const replica = object('ReplicaState', {
  name,
  place: { ...name, description: 'Where it runs or ran.' },
  time_zones: optional({
    ...name,
    description: 'Its edition of the time zone database.',
    examples: ['2026b'],
  }),
  answers: { ...flag, description: 'Whether it is the responding process.' },
  unseen_seconds: { ...seconds, description: 'Time since it last polled for revocations.' },
  serves_seconds: { ...seconds, description: 'How long it may serve without polling again.' },
  unread_revocations: optional({
    ...count,
    description:
      'Revocations that it has not read; at most 1,000 are counted. Absent before its first poll.',
  }),
})

const schema = {
  operationId: 'readState',
  summary: 'Read the state of the service',
  description:
    'For administrators: the responding process, all processes that a revocation waits for, and the state of database, Redis and journal as this process sees them.',
  tags: ['Administration'],
  security: [{ identityToken: [] }],
  response: responses('The state now.', [], 'ServiceState', {
    replica: { ...name, description: 'The responding process.' },
    version: name,
    ready: { ...flag, description: 'As in /readyz.' },
    degraded: strings('Parts that are unavailable, as in /readyz.', { examples: [['redis']] }),
    resources: object('ResourceCounts', {
      models: count,
      policies: count,
      subscriptions: count,
      problems: count,
      waiting_models: { ...count, description: 'Models whose cluster Envoy has not loaded.' },
      age_seconds: { ...seconds, description: 'Since they last changed.' },
    }),
    replicas: optional({
      type: 'array',
      items: replica,
      description:
        'The replica unseen for longest comes first; absent if the database does not respond.',
    }),
    revocations: object('RevocationState', {
      confirmed: { ...count, description: 'Responses with this state since the start.' },
      pending: count,
      last_confirmation_seconds: optional({ ...seconds, description: 'How long it took.' }),
      log_failing: { ...flag, description: 'Whether REVOCATION_LOG_DIR cannot be written.' },
    }),
    database: object('DatabaseState', {
      available: flag,
      key_age_seconds: optional({
        ...seconds,
        description: 'Time since it last confirmed cached keys; absent if it never has.',
      }),
      grace_seconds: { ...seconds, description: 'How long keys stay valid without it.' },
    }),
    redis: optional({
      description: 'Left out if counters are in memory.',
      ...object('RedisState', {
        available: flag,
        unflushed: { ...count, description: 'Counters that Redis has not acknowledged yet.' },
        losses: { ...count, description: 'How often Redis has lost its data since the start.' },
      }),
    }),
    open_limit_requests: optional({
      ...count,
      description: 'Limit requests without a decision; absent if the database does not respond.',
    }),
    uncounted_calls: {
      ...count,
      description:
        'Calls that this process has allowed since its start although they may return text that is not counted (METER_PATHS).',
    },
    first_byte: optional({
      description:
        'Time to the first byte of a response, of the last 1,000 that this process has seen at most; left out before the first.',
      ...object('FirstByteState', {
        responses: { ...count, description: 'The number of responses in this figure.' },
        median_seconds: seconds,
        p95_seconds: seconds,
      }),
    }),
    decision_table: optional({
      description:
        'The decision table, from which Envoy allows repeated requests, if this process writes it; absent from other processes, and with DECISION_TABLE=off.',
      ...object('DecisionTableState', {
        open: { ...flag, description: 'Whether Envoy uses it now.' },
        records: count,
        room: { ...count, description: 'The number of records that fit.' },
        size_bytes: count,
        lease_age_seconds: optional({
          ...seconds,
          description: 'Time since its lease was last renewed; absent before the first time.',
        }),
        published: { ...count, description: 'Records written since the start.' },
        withdrawn: { ...count, description: 'Records withdrawn before their end.' },
        unplaced: { ...count, description: 'Records for which there was no room.' },
      }),
    }),
    journal: optional({
      description: 'Left out with USAGE_JOURNAL=off.',
      ...object('JournalState', {
        failing: {
          ...flag,
          description: 'Whether lines are missing, or cannot be written or read.',
        },
        problems: strings('Its problems, some of which lose no lines.', { examples: [['flush']] }),
        lines: { ...count, description: 'Read by this process.' },
        skipped: { ...count, description: 'Lines that could not be read.' },
        unread_bytes: count,
      }),
    }),
  }),
} as const

/** The response. */
export type ServiceState = FromSchema<(typeof schema.response)[200]>
export type ReplicaState = FromSchema<typeof replica>

/** Adds the route. */
export function readState(app: Api, deps: ServiceStateDeps & ExternalDeps): void {
  const { serviceState, limitRequests, clock } = deps
  app.get('/v1/admin/state', { schema }, async () => {
    const [state, open] = await Promise.all([
      serviceState(),
      limitRequests.countOpen(clock()).catch(() => undefined),
    ])
    return { ...state, ...(open !== undefined && { open_limit_requests: open }) }
  })
}
