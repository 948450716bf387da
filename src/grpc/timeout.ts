/** `grpc-timeout` (gRPC over HTTP/2, "Timeout"): how long a client waits for the response. */

const form = /^([0-9]{1,8})([HMSmun])$/
const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
}
/** The longest time of a timer: 24 days. */
const maxMs = 2 ** 31 - 1

/** In milliseconds; undefined if absent or invalid. */
export function readTimeout(text: string | undefined): number | undefined {
  const [, count, unit = ''] = form.exec(text ?? '') ?? []
  if (count === undefined) return undefined
  return Math.min(maxMs, Math.ceil(Number(count) * (unitMs[unit] as number)))
}
