/** How a request ended at its model's server, according to Envoy. */

/** Why there was no response, or only part of one. */
type FailureReason =
  | 'dns'
  | 'refused'
  | 'unreachable'
  | 'tls'
  | 'timeout'
  | 'reset'
  | 'protocol'
  | 'overflow'
  | 'no_cluster'
  | 'credential_refused'

export interface ModelFailure {
  readonly reason: FailureReason
  /** Envoy's description. */
  readonly detail: string
}

/** One allowed request. */
export interface RequestOutcome {
  /** `<namespace>/<name>`. */
  readonly model: string
  readonly subscription: string
  readonly requestId: string
  /** HTTP status of the response; 0 if there was none. */
  readonly status: number
  /** Milliseconds since the epoch. */
  readonly endedAt: number
  /** From the first byte of the request to the last of the response. */
  readonly durationMs: number
  /** From the first byte of the request to the first byte of the server's response, or undefined if there was none. */
  readonly firstByteMs: number | undefined
  /** Undefined if the server responded, or did not cause the failure. */
  readonly failure: ModelFailure | undefined
  /** Whether the server responded, with any status. */
  readonly hasResponded: boolean
}

/** Envoy's words about a request, as in its line. */
export interface EndedStream {
  /** Response flags by their short names, such as `UF,URX`; empty if there are none. */
  readonly flags: string
  /** Of the response; empty if there are none. */
  readonly details: string
  /** Why the connection to the model failed; empty if it did not. */
  readonly transport: string
  /** The failure that a script of the gateway detected, or undefined if there was none. */
  readonly failure: string | undefined
}

/** Returns undefined if the model's server did not fail. */
export function modelFailureOf(ended: EndedStream): ModelFailure | undefined {
  const { flags, details, transport, failure } = ended
  if (failure === 'credential_refused') return { reason: failure, detail: details }
  const reason = reasonOf(new Set(flags.split(',')), `${details} ${transport}`)
  // Envoy's details of the response and the transport describe a failed connection; the transport's text says more.
  return reason && { reason, detail: transport || details }
}

/** Whether the server's own response was forwarded. */
export function hasServerResponded({ details }: Pick<EndedStream, 'details'>): boolean {
  return details.startsWith('via_upstream')
}

/** Whether the client disconnected, for which Envoy has two flags. */
export function hasClientDisconnected(flags: string): boolean {
  return /\bD[CR]\b/.test(flags)
}

function reasonOf(flags: ReadonlySet<string>, words: string): FailureReason | undefined {
  if (flags.has('NC')) return 'no_cluster'
  // No healthy upstream: clusters of models have no health checks, so this means that there is no address.
  if (flags.has('DF') || flags.has('UH')) return 'dns'
  if (flags.has('UO')) return 'overflow'
  if (flags.has('UF')) {
    if (/TLS_error|CERTIFICATE_VERIFY|SSL_|TLS error/.test(words)) return 'tls'
    if (/refused/i.test(words)) return 'refused'
    return /timeout/i.test(words) ? 'timeout' : 'unreachable'
  }
  // A response that breaks off between two chunks counts too.
  if (flags.has('UPE')) return /after_response_started/.test(words) ? 'reset' : 'protocol'
  if (timeouts.some((each) => flags.has(each))) return 'timeout'
  return flags.has('UR') || flags.has('UC') ? 'reset' : undefined
}

/** Of the server's response, of an idle stream, and of the whole request by two settings. */
const timeouts = ['UT', 'SI', 'UMSDR', 'DT']
