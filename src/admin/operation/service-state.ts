/** `GET /v1/admin/state`: this process, the others, and what they depend on. */

import type { FromSchema } from 'json-schema-to-ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { answers, object, optional } from '../http/schema.ts'

export interface ServiceStateDeps {
  /** Never rejects; what is unavailable is left out or said. */
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
    description: "Its edition of the time zones' rules.",
    examples: ['2026b'],
  }),
  answers: { ...flag, description: 'Whether it is the one that answers.' },
  unseen_seconds: { ...seconds, description: 'Since it last asked for revocations.' },
  serves_seconds: { ...seconds, description: 'How long it may serve without asking again.' },
  unread_revocations: optional({
    ...count,
    description:
      'Under way: revocations that it has not read, at most 1,000 are counted. Left out before its first.',
  }),
})

const schema = {
  operationId: 'readState',
  summary: 'Read the state of the service',
  description:
    'For administrators: the process that answers, all processes that a revocation waits for, and the state of database, Redis and journal as this process sees them.',
  tags: ['Administration'],
  security: [{ identityToken: [] }],
  response: answers('The state now.', [403], 'ServiceState', {
    replica: { ...name, description: 'The process that answers.' },
    version: name,
    ready: { ...flag, description: 'As in /readyz.' },
    degraded: {
      type: 'array',
      items: name,
      description: 'Parts that are unavailable, as in /readyz.',
      examples: [['redis']],
    },
    resources: object('ResourceCounts', {
      models: count,
      policies: count,
      subscriptions: count,
      problems: count,
      waiting_models: { ...count, description: 'Whose cluster Envoy has not loaded.' },
      age_seconds: { ...seconds, description: 'Since they last changed.' },
    }),
    replicas: optional({
      type: 'array',
      items: replica,
      description: 'The one unseen longest first; left out if the database does not answer.',
    }),
    revocations: object('RevocationState', {
      confirmed: { ...count, description: 'Answers with this state since the start.' },
      pending: count,
      last_confirmation_seconds: optional({ ...seconds, description: 'How long it took.' }),
      log_failing: { ...flag, description: 'Whether REVOCATION_LOG_DIR cannot be written.' },
    }),
    database: object('DatabaseState', {
      available: flag,
      key_age_seconds: optional({
        ...seconds,
        description: 'Since it last confirmed cached keys; left out if it never has.',
      }),
      grace_seconds: { ...seconds, description: 'How long keys stay valid without it.' },
    }),
    redis: optional({
      description: 'Left out if counters are in memory.',
      ...object('RedisState', {
        available: flag,
        unflushed: { ...count, description: 'Counters that it does not have yet.' },
        losses: { ...count, description: 'How often it has lost its data since the start.' },
      }),
    }),
    open_limit_requests: optional({
      ...count,
      description:
        'Requests for more of a limit that nobody has decided; left out if the database does not answer.',
    }),
    uncounted_calls: {
      ...count,
      description:
        'Allowed by this process since its start although they may return text that nothing counts (METER_PATHS).',
    },
    first_byte: optional({
      description:
        'Time to the first byte of a response, of the last 1,000 that this process has seen at most; left out before the first.',
      ...object('FirstByteState', {
        responses: { ...count, description: 'How many it is taken from.' },
        median_seconds: seconds,
        p95_seconds: seconds,
      }),
    }),
    decision_table: optional({
      description:
        'Of the process that writes the table by which Envoy decides what was allowed before; left out by others, and with DECISION_TABLE=off.',
      ...object('DecisionTableState', {
        open: { ...flag, description: 'Whether Envoy decides by it now.' },
        records: count,
        room: { ...count, description: 'For so many records.' },
        size_bytes: count,
        lease_age_seconds: optional({
          ...seconds,
          description:
            'Since it was last said that it is in force; left out before the first time.',
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
          description: 'Whether lines do not come, or cannot be written or read.',
        },
        problems: {
          type: 'array',
          items: name,
          description: 'What is wrong with it; some of it loses no lines.',
          examples: [['flush']],
        },
        lines: { ...count, description: 'Read by this process.' },
        skipped: { ...count, description: 'Lines that could not be read.' },
        unread_bytes: count,
      }),
    }),
  }),
} as const

/** The answer. */
export type ServiceState = FromSchema<(typeof schema.response)[200]>
export type ReplicaState = FromSchema<typeof replica>

/** Adds the route. */
export function readState(
  app: Api,
  {
    serviceState,
    limitRequests,
    clock,
  }: ServiceStateDeps & Pick<ExternalDeps, 'limitRequests' | 'clock'>,
): void {
  app.get('/v1/admin/state', { schema }, async () => {
    const [state, open] = await Promise.all([
      serviceState(),
      limitRequests?.countOpen(clock()).catch(() => undefined),
    ])
    return { ...state, ...(open !== undefined && { open_limit_requests: open }) }
  })
}
