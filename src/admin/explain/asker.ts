/**
 * Who asks in a question to `POST /v1/explain`: a person, one of their keys, or the newest key in place of a person.
 */

import type { FastifyRequest } from 'fastify'
import { findSubscription, selectForKey } from '../../decide/subscription-selection.ts'
import { ServiceError } from '../../formats/errors.ts'
import { describeInvalidKey } from '../../identity/authenticate.ts'
import type { Caller, TokenCaller } from '../../identity/rules/caller.ts'
import { type ApiKeyRecord, endsSoon } from '../../keys/rules/api-key.ts'
import { onlyKeyOf } from '../../keys/rules/caps-of-caller.ts'
import { compileCaps } from '../../keys/rules/compiled-caps.ts'
import type { ApiKeyStore } from '../../keys/store.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { isListing } from '../../operations/operations.ts'
import { parseTarget } from '../../operations/request-target.ts'
import type { ExternalDeps } from '../deps.ts'
import { noteForeignRead } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { isUuid, requireKey } from '../keys/key-access.ts'
import type { Question } from './explain-question.ts'
import type { AskedAs } from './explain-view.ts'

/** Who asks, as the decision sees them. */
export interface Asker {
  /** Null if the credential is not valid. */
  readonly caller: Caller | null
  /** Why the key is not valid. */
  readonly ended?: string | undefined
  /** When the key expires, in milliseconds since the epoch, or null if never. */
  readonly expiresAt?: number | null
  readonly askedAs?: AskedAs
  /** Other keys that the person may have meant. */
  readonly otherKeys?: readonly ApiKeyRecord[]
  /** Whether a key is assumed for the person. */
  readonly isStandIn?: boolean
}

type Known = Asker & { readonly caller: Caller }

/** Finds who asks in a question, or asked in a past request. */
export function createAskerFinder({
  keys,
  keyReach,
  snapshot,
  clock,
  tokensOpenInference,
}: ExternalDeps) {
  async function findKey(id: string, at: number): Promise<Known | undefined> {
    const record = isUuid(id) ? await keys.findById(id) : undefined
    return record && askerByKey(record, at)
  }

  /** A person as if with a key: the newest, of the subscription if one is named, else a new one. */
  async function standIn(
    person: TokenCaller,
    { at, requestedSubscription: requested }: Question,
  ): Promise<Known> {
    const of = requested && (findSubscription(snapshot(), requested)?.name ?? requested)
    const [record, ...otherKeys] = await newestKeys(keys, person.user, of, clock())
    if (record !== undefined) {
      const { id: keyId, name, subscription } = record
      const askedAs = { key: 'newest', keyId, name, subscription } as const
      return { ...askerByKey(record, at), askedAs, otherKeys }
    }
    const subscription =
      requested === undefined ? subscriptionOfNewKey(person, snapshot()) : undefined
    const asNew = subscription && { askedAs: { key: 'new', subscription } as const }
    return { caller: person, isStandIn: true, ...asNew }
  }

  /** Whether identity tokens allow the request. */
  function takesTokens({ path, method }: Question): boolean {
    const operation = parseTarget(path)?.operation
    return tokensOpenInference || (operation !== undefined && isListing(operation, method))
  }

  /** The person, or the key's owner; refuses a user who asks about another one. */
  async function findAsker(
    question: Question,
    request: FastifyRequest,
    whole: boolean,
  ): Promise<Known> {
    const { keyId, person, named, at } = question
    const caller = callerOf(request)
    const { user, groups } = caller
    const only = onlyKeyOf(caller, keyReach)
    if (keyId === undefined) {
      noteForeignAsker(request, person)
      if (only !== undefined && person !== caller) {
        throw new ServiceError('admin_required', { message: onlyItself })
      }
      const isSelf = person.user === user && person.groups.every((each) => groups.includes(each))
      if (!whole && !isSelf) throw new ServiceError('admin_required', { message: notYours })
      if (named) return standIn(named, question)
      return person.by === 'key' || takesTokens(question)
        ? { caller: person }
        : standIn(person, question)
    }
    const found = keyId === (only ?? keyId) ? await findKey(keyId, at) : undefined
    if (found !== undefined) noteForeignAsker(request, found.caller)
    return requireKey(whole || found?.caller.user === user ? found : undefined)
  }

  /** The caller of a request, with the key as it is now. */
  async function findAskerNow(caller: Caller | null, now: number): Promise<Asker> {
    if (caller?.by !== 'key') return { caller }
    return (await findKey(caller.keyId, now)) ?? { caller, ended: keyGone }
  }

  return { findAsker, findAskerNow }
}

/** The owner of a key, with it. */
export function askerByKey(record: ApiKeyRecord, at: number): Known {
  const { user, groups, subscription, expiresAt } = record
  const caps = compileCaps(record)
  const caller = {
    ...({ by: 'key', user, groups, keyId: record.id, subscription } as const),
    ...(caps && { caps }),
    ...(endsSoon(record, at) && expiresAt !== null && { endsSoonAt: expiresAt }),
  }
  return { caller, ended: describeInvalidKey(record, at), expiresAt }
}

/** Notes in the audit trail that an administrator asks about another user. */
export function noteForeignAsker(request: FastifyRequest, { user, ...other }: Caller): void {
  if (user === callerOf(request).user) return
  noteForeignRead(request, { ...(other.by === 'key' && { keyId: other.keyId }), user })
}

/** Maximum number of a person's keys that are considered. */
const maxKeys = 20

/**
 * The user's keys that are active at `now` and not ephemeral, of the subscription with this bare name,
 * if one is given; newest first, at most `maxKeys`.
 */
function newestKeys(
  keys: Pick<ApiKeyStore, 'search'>,
  user: string,
  subscription: string | undefined,
  now: number,
): Promise<readonly ApiKeyRecord[]> {
  return keys.search({
    ...{
      owner: user,
      subscription,
      statuses: new Set(['active'] as const),
      includeEphemeral: false,
    },
    ...{ prefix: undefined, labels: {}, now },
    ...({ sortBy: 'created_at', descending: true, limit: maxKeys, offset: 0 } as const),
  })
}

/** The subscription that a new key of the person would be bound to, or undefined if there is none. */
function subscriptionOfNewKey(person: TokenCaller, snapshot: Snapshot): string | undefined {
  try {
    return selectForKey(snapshot, person, undefined).name
  } catch (error) {
    if (error instanceof ServiceError) return undefined
    throw error
  }
}

const keyGone = 'The API key does not exist any more.'
const onlyItself = 'This API key may ask only about itself; use an identity token.'
const notYours =
  'Only an administrator may ask what another user may call. If user is your own name, groups must be among your own.'
