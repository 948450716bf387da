/** The codes of refusals in words: the reason, and what to do next. */

import type { ErrorCode } from '../../../src/formats/errors.ts'

export interface Words {
  readonly title: string
  readonly next: string
}

/** The codes in answers: two codes exist only within the service. */
type PublicCode =
  | Exclude<ErrorCode, 'token_limit_exceeded' | 'subscription_pending'>
  | 'rate_limit_exceeded'
  | 'insufficient_quota'

const again = 'Try again in a few seconds. If it persists, tell the operator of the gateway.'
const written = 'Change the request as the message says.'

const codes: Readonly<Record<PublicCode, Words>> = {
  rate_limit_exceeded: {
    title: 'Token limit used up',
    next: 'Wait until it resets, or use a key of another subscription that includes the model.',
  },
  insufficient_quota: {
    title: 'Budget used up',
    next: 'Wait until it resets, or ask for more on the Budgets page. For a key’s own budget, which is not listed there, ask an administrator.',
  },
  request_limit_exceeded: {
    title: 'Request limit used up',
    next: 'Wait until it resets, or send fewer requests.',
  },
  concurrency_limit_exceeded: {
    title: 'Too many requests at a time',
    next: 'Wait until one of your requests has ended, or send fewer at a time.',
  },
  too_many_keys: {
    title: 'Too many active keys',
    next: 'Revoke keys that you no longer use, then create this one.',
  },
  too_many_requests: { title: 'Too many API calls', next: 'Wait a moment, then try again.' },
  credential_invalid: {
    title: 'Key not accepted',
    next: 'Check that the key is complete and neither revoked nor expired; otherwise create a new one.',
  },
  identity_token_required: {
    title: 'An API key cannot do this',
    next: 'Sign in with an identity token.',
  },
  model_not_allowed: {
    title: 'Model not open to you',
    next: 'Check the name of the model: the Models page has those that you may use. Ask an administrator to open others.',
  },
  subscription_not_allowed: {
    title: 'Subscription does not include the model',
    next: 'Use a key of a subscription that includes the model: the Models page shows which ones.',
  },
  invalid_subscription: {
    title: 'No such subscription',
    next: 'Choose one of your own subscriptions.',
  },
  subscription_not_ready: {
    title: 'Subscription not ready',
    next: 'Try again in a minute. If it persists, administrators see the reason on the Resources page.',
  },
  address_not_allowed: {
    title: 'Key not allowed from this network',
    next: 'Use the key from one of its networks, or ask an administrator to add yours.',
  },
  path_closed: {
    title: 'Path closed',
    next: 'Use an operation that is counted, such as /v1/chat/completions.',
  },
  admin_required: {
    title: 'For administrators',
    next: 'Sign in as an administrator, or ask one.',
  },
  client_certificate_required: {
    title: 'Client certificate required',
    next: 'Send a certificate of an accepted authority.',
  },
  local_only: { title: 'Only on the same machine', next: 'Call it where the service runs.' },
  invalid_request: { title: 'Request malformed', next: written },
  bad_request: { title: 'Request malformed', next: written },
  invalid_body: {
    title: 'Body is not a JSON object',
    next: 'Send a JSON object with the name of the model in it.',
  },
  invalid_lifetime: {
    title: 'Lifetime not valid',
    next: 'Choose a lifetime such as 30d, at most the maximum.',
  },
  body_too_large: { title: 'Body too large', next: 'Send less at a time.' },
  model_path_needed: {
    title: 'Model missing in the path',
    next: 'Put namespace and name of the model before /v1 in the path.',
  },
  model_ambiguous: {
    title: 'Several models have this name',
    next: 'Name the model as namespace/name, or use its path.',
  },
  not_found: {
    title: 'Unknown path',
    next: 'Check the base URL of your client: it usually ends in /v1.',
  },
  method_not_allowed: { title: 'Method not supported', next: 'Use POST for calls of models.' },
  model_unavailable: {
    title: 'Model not available',
    next: 'Its server does not respond. Try again in a minute, or use another model.',
  },
  loop_detected: {
    title: 'Request loop',
    next: 'The address of the model leads back to this gateway; an administrator must correct it.',
  },
  idempotency_busy: { title: 'The same request is in progress', next: again },
  idempotency_done: { title: 'Already done', next: 'Use a new Idempotency-Key for a new key.' },
  idempotency_mismatch: {
    title: 'Idempotency-Key already used',
    next: 'Use a new one for each request.',
  },
  internal: { title: 'Gateway error', next: again },
  internal_error: { title: 'Gateway error', next: again },
  store_unavailable: { title: 'Key store unavailable', next: again },
  store_slow: { title: 'Key store too slow', next: again },
  store_locked: { title: 'Key store busy', next: again },
  search_timeout: { title: 'Search took too long', next: 'Narrow the search.' },
  usage_timeout: { title: 'Reading usage took too long', next: 'Choose a shorter period.' },
  audit_unavailable: { title: 'Audit trail unavailable', next: again },
  identity_unavailable: { title: 'Identity provider unavailable', next: again },
  counters_unavailable: { title: 'Counters unavailable', next: again },
}

/** For administrators who see another user's request, if the caller's text does not fit. */
const ofOthers: Partial<Readonly<Record<PublicCode, Words>>> = {
  rate_limit_exceeded: {
    title: 'Token limit used up',
    next: 'It resets by itself. To allow more, raise the limit, or use another subscription that includes the model.',
  },
  insufficient_quota: {
    title: 'Budget used up',
    next: 'It resets by itself. To allow more, raise the budget, or grant an increase on the Budgets page (of a key’s own budget, which is not listed there, by the id of the key).',
  },
  request_limit_exceeded: {
    title: 'Request limit used up',
    next: 'It resets by itself. The client should send fewer requests.',
  },
  concurrency_limit_exceeded: {
    title: 'Too many requests at a time',
    next: 'The client should send fewer at a time.',
  },
  credential_invalid: {
    title: 'Key not accepted',
    next: 'It is incomplete, revoked, expired or from another gateway. Its owner can create a new one.',
  },
  model_not_allowed: {
    title: 'Model not open to the caller',
    next: 'The name may be misspelt: the Access page shows who may use which model. To open it, add a policy.',
  },
  subscription_not_allowed: {
    title: 'Subscription does not include the model',
    next: 'The Access page shows the subscriptions that pay for the model.',
  },
  invalid_subscription: {
    title: 'No such subscription',
    next: 'The caller named a subscription of somebody else: the Access page shows their own.',
  },
  subscription_not_ready: {
    title: 'Subscription not ready',
    next: 'If it persists, the Resources page shows the reason.',
  },
  address_not_allowed: {
    title: 'Key not allowed from this network',
    next: 'Use the key from one of its networks, or extend them.',
  },
}

/** The reasons why a subscription does not pay. */
export const passedOver = {
  not_named: 'was not considered: the key or the request names another one',
  not_found: 'does not exist',
  access_denied: 'is not open to the user',
  model_not_in_subscription: 'does not include the model',
  model_unhealthy: 'is not ready for the model',
  multiple_subscriptions: 'is one of several; the request must name one',
} as const

/** The reason that administrators get besides the message: a text, or why a subscription does not pay. */
export function reasonIn(reason: string): string {
  return Object.hasOwn(passedOver, reason)
    ? `The subscription ${passedOver[reason as keyof typeof passedOver]}.`
    : reason
}

/** For the caller, or about another user's request; undefined for a code of a newer service. */
export function wordsOf(code: string, isOfOther = false): Words {
  if (!Object.hasOwn(codes, code)) return { title: code.replaceAll('_', ' '), next: written }
  return (isOfOther && ofOthers[code as PublicCode]) || codes[code as PublicCode]
}
