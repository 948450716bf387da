/** `POST /v1/api-keys/bulk-revoke` (contract, 3.6). */

import type { FastifyRequest } from 'fastify'
import { ServiceError } from '../../formats/errors.ts'
import type { Caller, KeyCaller } from '../../identity/rules/caller.ts'
import type { ApiKeyStatus } from '../../keys/rules/api-key.ts'
import { onlyKeyOf } from '../../keys/rules/caps-of-caller.ts'
import type { KeyScope } from '../../keys/store.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, recordAsAction, recordIntent } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { type BodyOf, requirePlainText } from '../http/body.ts'
import { boolean, optional, responses } from '../http/schema.ts'
import { withoutEmpty } from '../http/without-empty.ts'
import { requestedNameField } from './key-fields.ts'
import { orUnsure, propagationSchema } from './propagation.ts'

const schema = {
  operationId: 'bulkRevokeApiKeys',
  summary: 'Revoke all API keys of a user or of a subscription',
  description:
    'All your active keys, including ephemeral ones; a key with caps revokes only itself. An administrator may name another user, a subscription, or both: then the keys of that user under that subscription. Keys that are already revoked or expired do not change. The response is sent when every replica has applied it, or after a second: `propagation` says which.',
  tags: ['API keys'],
  body: {
    title: 'BulkRevocation',
    type: ['object', 'null'],
    additionalProperties: false,
    properties: {
      username: {
        ...requestedNameField,
        description:
          'The owner; if blank or absent, yourself, unless a subscription is named. The body may be absent, too.',
        examples: ['alice'],
      },
      subscription: {
        ...requestedNameField,
        description: "The subscription's bare name; for administrators.",
        examples: ['team-a-basic'],
      },
      dryRun: {
        type: ['boolean', 'null'],
        default: false,
        description: 'Only count the keys, without revoking any.',
      },
    },
  },
  response: responses('Done, even if there was nothing to revoke.', [400, 413], 'BulkRevoked', {
    revokedCount: { type: 'integer', minimum: 0, examples: [3] },
    message: { type: 'string', examples: ['Revoked 3 API keys of user alice.'] },
    dryRun: optional(boolean('Only after a dry run, which revokes nothing.')),
    propagation: optional(propagationSchema),
  }),
} as const

type Body = BodyOf<typeof schema.body>

/** Adds the route. Of concurrent calls, one counts each key. */
export function bulkRevokeApiKeys(app: Api, deps: ExternalDeps): void {
  const { keys, isAdmin, clock, propagation, keyReach } = deps
  const config = {
    audit: 'key.bulk_revoke',
    endsOwnKey: ({ body }: FastifyRequest, caller: KeyCaller) => {
      const { dryRun, ...named } = (body ?? {}) as NonNullable<Body>
      return !dryRun && isOwn(readScope(named, caller), caller)
    },
  } as const
  /** Whether there are or were keys of the user whose name is `owner` with its outer blanks. */
  async function hasKeys(owner: string): Promise<boolean> {
    const any = { only: undefined, subscription: undefined, prefix: undefined, labels: {} }
    const first = { sortBy: 'created_at', descending: true, limit: 1, offset: 0 } as const
    const statuses = new Set<ApiKeyStatus>()
    const search = { ...any, ...first, owner, statuses, includeEphemeral: true, now: clock() }
    return (await keys.search(search)).length > 0
  }
  async function revokeOne(id: string, user: string) {
    const revoked = await keys.revoke(id, user, clock())
    return revoked === undefined ? [] : [revoked]
  }

  app.post('/v1/api-keys/bulk-revoke', { schema, config }, async (request) => {
    const caller = callerOf(request)
    const { dryRun, ...named } = request.body ?? {}
    if (dryRun) recordAsAction(request, 'key.bulk_revoke_preview')
    const read = readScope(named, caller)
    const only = onlyKeyOf(caller, keyReach)
    addToOutcome(request, targetOf(read, only))
    if (!isOwn(read, caller) && !(await isAdmin(caller))) {
      throw new ServiceError('admin_required')
    }
    const { username } = named
    const isTrimmed = username != null && read.user === username.trim() && read.user !== username
    const isExact = isTrimmed && read.user !== caller.user && (await hasKeys(username))
    const scope = isExact ? { ...read, user: username } : read
    const target = targetOf(scope, only)
    addToOutcome(request, target)
    if (dryRun) {
      const revokedCount = only === undefined ? await keys.countActive(scope, clock()) : 1
      addToOutcome(request, {}, revokedCount)
      const message = `Dry run: would revoke ${describeKeys(revokedCount, scope)}.${noteOf(only)}`
      return { revokedCount, message, dryRun }
    }
    await recordIntent(request, target)
    const revoked = await orUnsure(
      only === undefined ? keys.revokeAll(scope, clock()) : revokeOne(only, caller.user),
    )
    const revokedCount = revoked.length
    addToOutcome(request, {}, revokedCount)
    // Also if there was nothing left to revoke: the response to an earlier call may have been
    // lost.
    const message = `Revoked ${describeKeys(revokedCount, scope)}.${noteOf(only)}`
    return { revokedCount, message, propagation: await propagation(revoked) }
  })
}

function readScope(named: NonNullable<Body>, caller: Caller): KeyScope {
  // Names are trimmed, except the caller's own, which may begin or end with blanks.
  const isExact = named.username === caller.user
  const username = isExact ? caller.user : readName('username', named.username)
  const subscription = readName('subscription', named.subscription)
  return { user: username ?? (subscription === undefined ? caller.user : undefined), subscription }
}

function targetOf({ user, subscription }: KeyScope, only: string | undefined) {
  return withoutEmpty({ keyId: only, user, subscription })
}

/** Whether these are all keys of the caller. */
function isOwn({ user, subscription }: KeyScope, caller: Caller): boolean {
  return user === caller.user && subscription === undefined
}

/** Trimmed; blank is the same as left out. */
function readName(field: string, raw: string | null | undefined): string | undefined {
  requirePlainText(field, raw ?? undefined)
  return raw?.trim() || undefined
}

function noteOf(only: string | undefined): string {
  if (only === undefined) return ''
  return ' This key revokes only itself; to revoke others of its owner, use an identity token.'
}

function describeKeys(count: number, { user, subscription }: KeyScope): string {
  const keys = count === 1 ? '1 API key' : `${count} API keys`
  const owner = user === undefined ? '' : ` of user ${user}`
  return `${keys}${owner}${subscription === undefined ? '' : ` under subscription ${subscription}`}`
}
