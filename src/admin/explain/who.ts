/**
 * Who asks in a question to `POST /v1/explain`: a person, one of their keys, or the newest key in place of a person.
 */

import type { FastifyRequest } from 'fastify'
import { findSubscription } from '../../decide/subscription-selection.ts'
import { ServiceError } from '../../formats/errors.ts'
import { describeInvalidKey } from '../../identity/authenticate.ts'
import type { Caller, TokenCaller } from '../../identity/rules/caller.ts'
import { type ApiKeyRecord, endsSoon } from '../../keys/rules/api-key.ts'
import { onlyKeyOf } from '../../keys/rules/caps-of-caller.ts'
import { compileCaps } from '../../keys/rules/compiled-caps.ts'
import { isListing } from '../../operations/operations.ts'
import { parseTarget } from '../../operations/request-target.ts'
import type { ExplainDeps } from '../deps.ts'
import { noteForeignRead } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { foundKey, isKeyId } from '../keys/key-access.ts'
import type { Question } from './explain-question.ts'
import type { AskedAs } from './explain-view.ts'
import { newestKeys, subscriptionOfNewKey } from './newest-keys.ts'

/** Who asks. */
export interface Who {
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

type Known = Who & { readonly caller: Caller }

export function createWho({ keys, keyReach, snapshot, clock, tokensOpenInference }: ExplainDeps) {
  async function findKey(id: string, at: number): Promise<Known | undefined> {
    const record = isKeyId(id) ? await keys.findById(id) : undefined
    return record && ownerOfKey(record, at)
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
      return { ...ownerOfKey(record, at), askedAs, otherKeys }
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
  async function readWho(
    question: Question,
    request: FastifyRequest,
    whole: boolean,
  ): Promise<Known> {
    const { keyId, person, named, at } = question
    const caller = callerOf(request)
    const { user, groups } = caller
    const only = onlyKeyOf(caller, keyReach)
    if (keyId === undefined) {
      auditExplain(request, person)
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
    if (found !== undefined) auditExplain(request, found.caller)
    return foundKey(whole || found?.caller.user === user ? found : undefined)
  }

  /** The caller of a request, with the key as it is now. */
  async function whoNow(caller: Caller | null, now: number): Promise<Who> {
    if (caller?.by !== 'key') return { caller }
    return (await findKey(caller.keyId, now)) ?? { caller, ended: keyGone }
  }

  return { readWho, whoNow }
}

/** The owner of a key, with it. */
export function ownerOfKey(record: ApiKeyRecord, at: number): Known {
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
export function auditExplain(request: FastifyRequest, { user, ...other }: Caller): void {
  if (user === callerOf(request).user) return
  noteForeignRead(request, { ...(other.by === 'key' && { keyId: other.keyId }), user })
}

const keyGone = 'The API key does not exist any more.'
const onlyItself = 'This API key may ask only about itself; use an identity token.'
const notYours =
  'Only an administrator may ask what another user may call. If user is your own name, groups must be among your own.'
