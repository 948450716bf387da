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
export interface Outcome {
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
  readonly answered: boolean
}

/** Fields of an access-log entry (envoy.data.accesslog.v3). */
interface EndedStream {
  /** Field numbers of the ResponseFlags that are set. */
  readonly flags: ReadonlySet<number>
  /** `response_code_details`. */
  readonly details: string
  /** `upstream_transport_failure_reason`. */
  readonly transport: string
  /** The failure reason that one of our scripts recorded (`tollgate.failure`). */
  readonly reported: string | undefined
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

/** Returns undefined if the model's server did not fail. */
export function failureOf(ended: EndedStream): ModelFailure | undefined {
  const { flags, details, transport, reported } = ended
  if (reported === 'credential_refused') return { reason: reported, detail: details }
  const reason = reasonOf(flags, `${details} ${transport}`)
  // Envoy's details of the response and the transport describe a failed connection; the transport's text says more.
  return reason && { reason, detail: transport || details }
}

/** Whether the server's own response was forwarded. */
export function isAnswered({ details }: EndedStream): boolean {
  return details.startsWith('via_upstream')
}

function reasonOf(flags: ReadonlySet<number>, words: string): FailureReason | undefined {
  if (flags.size === 0) return undefined
  if (flags.has(flag.noCluster)) return 'no_cluster'
  // Clusters of models have no health checks, so this means that there is no address.
  if (flags.has(flag.dnsFailure) || flags.has(flag.noHealthyUpstream)) return 'dns'
  if (flags.has(flag.overflow)) return 'overflow'
  if (flags.has(flag.connectionFailure)) {
    if (/TLS_error|CERTIFICATE_VERIFY|SSL_|TLS error/.test(words)) return 'tls'
    if (/refused/i.test(words)) return 'refused'
    return /timeout/i.test(words) ? 'timeout' : 'unreachable'
  }
  // A response that breaks off between two chunks counts too.
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
