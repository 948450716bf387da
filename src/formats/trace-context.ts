/** W3C Trace Context: the header `traceparent`. */

interface TraceParent {
  readonly traceId: string
  readonly parentId: string
  readonly sampled: boolean
}

const form = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/
/** Position of the last digit of the flags. */
const flagsAt = 54

/** Whether the header asks for a span; cheap enough to call at every Check. */
export function isSampled(traceparent: string | undefined): boolean {
  if (traceparent === undefined) return false
  const digit = traceparent.charCodeAt(flagsAt)
  // The digits of 0-9 and a-f with the last bit set: 1, 3, 5, 7, 9 and b, d, f.
  return digit < 0x60 ? (digit & 1) === 1 : digit > 0x60 && (digit & 1) === 0
}

/** undefined for an invalid header (version ff, ids of zeros). */
export function parseTraceParent(traceparent: string | undefined): TraceParent | undefined {
  const [, traceId = '', parentId = '', flags = ''] = form.exec(traceparent ?? '') ?? []
  if (traceId === '' || /^0+$/.test(traceId) || /^0+$/.test(parentId)) return undefined
  if (traceparent?.startsWith('ff')) return undefined
  return { traceId, parentId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** The trace id of a request; undefined if it has no header or several. */
export function traceIdOf(traceparent: string | readonly string[] | undefined): string | undefined {
  return typeof traceparent === 'string' ? parseTraceParent(traceparent)?.traceId : undefined
}
