/**
 * The charge of a response whose model has reported no usage, or only part of it, because the client disconnected, the
 * server died, or the model reports none. Check makes the estimate and the line carries it, so that counters and ledger
 * charge the same.
 */

/** A token of English text or of JSON has about four bytes. */
export const bytesOfToken = 4

export interface Estimate {
  /** Tokens of the request. */
  readonly input: number
  /** Bytes of generated text per output token, in a stream; 0 if the operation has no output. */
  readonly bytesPerToken: number
  /** From an earlier version: the bytes are of the whole stream. */
  readonly isOfStream?: boolean
}

/** The sent part of a response. */
export interface SentResponse {
  readonly bytes: number
  readonly isStream: boolean
  /** Bytes of generated text in a stream; 0 if none was found. */
  readonly textBytes: number
}

/** Bytes that a token usually takes in a stream; more than half of them surround its text. */
const streamBytesOfToken = 180

/**
 * The form in Check's metadata and in the journal. The bytes have decimals; without decimals they would be of the whole
 * stream.
 */
export function formatEstimate({ input, bytesPerToken }: Estimate): string {
  return `${Math.round(input)};${bytesPerToken.toFixed(2)}`
}

/** Returns undefined for anything else. */
export function parseEstimate(text: unknown): Estimate | undefined {
  const found = typeof text === 'string' ? /^(\d{1,15});(\d{1,9}(\.\d\d)?)$/.exec(text) : null
  if (found === null) return undefined
  const estimate = { input: Number(found[1]), bytesPerToken: Number(found[2]) }
  return found[3] === undefined ? { ...estimate, isOfStream: true } : estimate
}

/** Output tokens, estimated from the sent part of a response. */
export function estimateOutput(
  estimate: Estimate,
  { bytes, isStream, textBytes }: SentResponse,
): number {
  const { bytesPerToken, isOfStream } = estimate
  if (bytesPerToken === 0) return 0
  if (!isStream) return Math.ceil(bytes / bytesOfToken)
  if (isOfStream) return Math.ceil(bytes / bytesPerToken)
  // No text was found, because the stream's events have another form.
  if (textBytes === 0) return Math.ceil(bytes / streamBytesOfToken)
  return Math.ceil(textBytes / bytesPerToken)
}
