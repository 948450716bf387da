/**
 * The catalogue of refusals and failures, and the one JSON body for all of them (contract, 1.3).
 * Codes are stable: clients match on `code`, people read `message`.
 *
 * The status is beside the code because Check and the REST API return the same HTTP envelope.
 */

/** Seconds after which a client may retry when a store was unavailable (`retry-after`). */
export const retryAfterOutage = '2'

interface CatalogueEntry {
  readonly status: number
  readonly type: string
  readonly message: string
}

const catalogue = {
  ...all(400, 'invalid_request_error', {
    invalid_request: 'The request is malformed.',
    /** The tier lookup's own code (contract, 3.9). */
    bad_request: 'The request is malformed.',
    invalid_body: 'The body is not a JSON object.',
    invalid_lifetime: 'expiresIn is not a valid lifetime.',
    model_path_needed: 'Name the model in the path.',
    model_ambiguous: 'Several models have this name.',
    subscription_pending: 'The subscription is not ready yet.',
  }),
  ...all(401, 'authentication_error', {
    credential_invalid: 'The credential is missing or not valid.',
  }),
  ...all(403, 'permission_error', {
    identity_token_required: 'An API key cannot create API keys; use an identity token.',
    invalid_subscription:
      'No subscription that you have access to matches: name one of your own, or ask an administrator to add you or one of your groups to one.',
    subscription_not_ready: 'The subscription is not ready to be used.',
    model_not_allowed: 'The model does not exist or you have no access to it.',
    subscription_not_allowed: 'You have no access to the subscription for this model.',
    admin_required: "Only an administrator may access another user's API keys.",
    /** For the internal listener. */
    client_certificate_required: 'Use a client certificate signed by a CA in TLS_CLIENT_CA_FILE.',
    /** For the internal listener. */
    local_only: 'Only callers on this machine may do this.',
    /** The public code of `allowedAddresses`, a cap of a key. */
    address_not_allowed: 'The API key may not be used from your address.',
    path_closed: 'This path is closed; use a path whose tokens are counted.',
  }),
  ...all(404, 'not_found_error', { not_found: 'Not found.' }),
  ...all(405, 'invalid_request_error', {
    method_not_allowed: 'This path does not support that method.',
  }),
  ...all(409, 'invalid_request_error', {
    idempotency_busy:
      'A request with this Idempotency-Key is in progress; repeat it after the time in retry-after.',
    idempotency_done:
      'This request was already done, and its secret has since been used, rotated or revoked; no new secret is created.',
  }),
  ...all(422, 'invalid_request_error', {
    idempotency_mismatch:
      'This Idempotency-Key belongs to a request with another body; use a new one for each request.',
  }),
  ...all(413, 'invalid_request_error', { body_too_large: 'The body is larger than 1 MiB.' }),
  ...all(429, 'tokens', {
    /** Type and public code are OpenAI's, so that its clients recognize them. */
    token_limit_exceeded: 'The token limit of your subscription for this model is used up.',
  }),
  /** OpenAI's type for limits on requests. */
  ...all(429, 'requests', {
    request_limit_exceeded: 'The request limit of your subscription for this model is used up.',
    concurrency_limit_exceeded:
      'As many of your requests to this model are in progress as your subscription allows.',
  }),
  /** With this type, Codex shows when it may continue; the code is OpenAI's for an account without money. */
  ...all(429, 'usage_limit_reached', {
    insufficient_quota: 'A budget for this model is used up.',
  }),
  ...all(429, 'rate_limit_error', {
    /** For the management API. */
    too_many_requests: 'Too many requests; wait for the time in retry-after.',
    too_many_keys: 'You have the maximum number of active keys; revoke some first.',
  }),
  ...all(500, 'server_error', {
    internal: 'Something went wrong on our side.',
    /** The tier lookup's own code (contract, 3.9). */
    internal_error: 'Something went wrong on our side.',
  }),
  ...all(508, 'server_error', {
    loop_detected: 'The request comes from a model of this gateway whose address leads back to it.',
  }),
  ...all(503, 'server_error', {
    model_unavailable: 'No backend serves the model right now.',
    store_unavailable: 'The key store is unavailable; try again in a few seconds.',
    store_slow: 'The key store took too long to respond; try again in a few seconds.',
    search_timeout:
      'The search took too long: narrow it, sort it by created_at, or run fewer searches at a time.',
    usage_timeout:
      'Reading the usage took too long: choose a shorter period or fewer groups, or run fewer queries at a time.',
    store_locked: 'An open transaction holds a lock in the key store; try again in a few seconds.',
    audit_unavailable:
      'The audit trail cannot be written, so nothing was done; try again in a few seconds.',
    identity_unavailable:
      'Identity tokens cannot be verified right now; try again in a few seconds.',
    counters_unavailable: 'The token counters are unavailable; try again in a few seconds.',
  }),
} as const

/** Entries with one status and type. */
function all<Code extends string>(
  status: number,
  type: string,
  messages: Readonly<Record<Code, string>>,
) {
  return Object.fromEntries(
    Object.entries(messages).map(([code, message]) => [code, { status, type, message }]),
  ) as Record<Code, CatalogueEntry>
}

/** A stable code from the catalogue. */
export type ErrorCode = keyof typeof catalogue

/** The body of every refusal: `{"error":{"message","type","code"}}`. */
export interface ErrorEnvelope {
  readonly error: {
    readonly message: string
    readonly type: string
    readonly code: string
    /** With the type `usage_limit_reached`: seconds since the epoch. */
    readonly resets_at?: number
  }
}

/** Statuses after which the same request would be refused again (`x-should-retry: false`). */
export function isFinalStatus(status: number): boolean {
  return status === 401 || status === 403 || status === 404
}

/** HTTP status, error type and default message of a code. */
export function errorEntry(code: ErrorCode): CatalogueEntry {
  return catalogue[code]
}

/** The envelope for a code, with the catalogue's message by default. */
export function errorBody(code: ErrorCode, message?: string): ErrorEnvelope {
  const entry = errorEntry(code)
  return {
    error: { message: message ?? entry.message, type: entry.type, code: publicCode(code) },
  }
}

/** All codes that clients see, in order. */
export function publicCodes(): readonly string[] {
  const all = Object.keys(catalogue) as ErrorCode[]
  return [...new Set(all.map(publicCode))].sort()
}

/** The code that clients see, where it differs from the internal one. */
function publicCode(code: ErrorCode): string {
  // The contract has one code for both readiness refusals; only their statuses differ (3.2).
  if (code === 'subscription_pending') return 'subscription_not_ready'
  return code === 'token_limit_exceeded' ? 'rate_limit_exceeded' : code
}

/**
 * A refusal or failure that may be reported to a caller. `message` is for the caller; `cause` is
 * only logged. Anything else that is thrown is a bug (500).
 */
export class ServiceError extends Error {
  readonly code: ErrorCode

  constructor(code: ErrorCode, options: { message?: string; cause?: unknown } = {}) {
    super(options.message ?? errorEntry(code).message, { cause: options.cause })
    this.name = 'ServiceError'
    this.code = code
  }
}

/** The refusal of a request that is malformed; the message names the field. */
export function invalidRequest(message: string): ServiceError {
  return new ServiceError('invalid_request', { message })
}
