/** How a request ended at its model's server, from what Envoy tells of it. */

/** Why there was no answer, or half of one. */
export type FailureReason =
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
  /** Envoy's own words. */
  readonly detail: string
}

/** One request that was allowed. */
export interface Outcome {
  /** `<namespace>/<name>`. */
  readonly model: string
  readonly subscription: string
  readonly requestId: string
  /** HTTP status of the answer; 0 when there was none. */
  readonly status: number
  /** From the first byte of the request to the last of the answer. */
  readonly durationMs: number
  /** From the same to the first byte of the server's answer; undefined: there was none. */
  readonly firstByteMs: number | undefined
  /** undefined: the server answered, or was not to blame. */
  readonly failure: ModelFailure | undefined
  /** Whether the server was heard at all. */
  readonly answered: boolean
}

/** What an access-log entry says (envoy.data.accesslog.v3). */
export interface EndedStream {
  /** Field numbers of the ResponseFlags that are set. */
  readonly flags: ReadonlySet<number>
  /** `response_code_details`. */
  readonly details: string
  /** `upstream_transport_failure_reason`. */
  readonly transport: string
  /** What a script of ours has made of the answer (`tollgate.failure`). */
  readonly told: string | undefined
}

/** Field numbers in ResponseFlags. */
const flag = {
  noHealthyUpstream: 2,
  upstreamTimeout: 3,
  upstreamReset: 5,
  connectionFailure: 6,
  connectionTermination: 7,
  overflow: 8,
  idleTimeout: 17,
  maxDuration: 20,
  durationTimeout: 23,
  protocolError: 24,
  noCluster: 25,
  dnsFailure: 27,
} as const

/** undefined: nothing that the model's server is to blame for. */
export function failureOf(ended: EndedStream): ModelFailure | undefined {
  const { flags, details, transport, told } = ended
  if (told === 'credential_refused') return { reason: told, detail: details }
  const reason = reasonOf(flags, `${details} ${transport}`)
  // What the connection has met is said in both, and better in the second.
  return reason && { reason, detail: transport || details }
}

/** Whether the server's own answer was passed on. */
export function isAnswered({ details }: EndedStream): boolean {
  return details.startsWith('via_upstream')
}

function reasonOf(flags: ReadonlySet<number>, words: string): FailureReason | undefined {
  if (flags.size === 0) return undefined
  if (flags.has(flag.noCluster)) return 'no_cluster'
  // Clusters of models have no health checks: without addresses there is nobody to ask.
  if (flags.has(flag.dnsFailure) || flags.has(flag.noHealthyUpstream)) return 'dns'
  if (flags.has(flag.overflow)) return 'overflow'
  if (flags.has(flag.connectionFailure)) {
    if (/TLS_error|CERTIFICATE_VERIFY|SSL_|TLS error/.test(words)) return 'tls'
    if (/refused/i.test(words)) return 'refused'
    return /timeout/i.test(words) ? 'timeout' : 'unreachable'
  }
  // An answer that breaks off between two chunks is one too.
  if (flags.has(flag.protocolError))
    return /after_response_started/.test(words) ? 'reset' : 'protocol'
  for (const each of [
    flag.upstreamTimeout,
    flag.idleTimeout,
    flag.maxDuration,
    flag.durationTimeout,
  ]) {
    if (flags.has(each)) return 'timeout'
  }
  if (flags.has(flag.upstreamReset) || flags.has(flag.connectionTermination)) return 'reset'
  return undefined
}
