/**
 * What a response is charged of which its model has reported nothing, or only the beginning: because
 * its client hung up, its server died, or reports no usage. Check estimates, and the gateway hands the
 * estimate on, so that stream, journal and ledger charge the same.
 */

export interface Estimate {
  /** Tokens of the request. */
  readonly input: number
  /** Bytes that a stream takes for each token of output; 0: the operation has no output. */
  readonly bytesPerToken: number
}

/** A token of English text or of JSON has about four bytes. */
export const bytesOfToken = 4

/** As it is in Check's metadata and in the journal. */
export function toEstimateText({ input, bytesPerToken }: Estimate): string {
  return `${Math.round(input)};${Math.round(bytesPerToken)}`
}

/** undefined for anything else. */
export function parseEstimate(text: unknown): Estimate | undefined {
  const found = typeof text === 'string' ? /^(\d{1,15});(\d{1,9})$/.exec(text) : null
  return found === null ? undefined : { input: Number(found[1]), bytesPerToken: Number(found[2]) }
}

/** Tokens of output in a response of this many bytes. */
export function estimateOutput(
  { bytesPerToken }: Estimate,
  bytes: number,
  isStream: boolean,
): number {
  if (bytesPerToken === 0) return 0
  return Math.ceil(bytes / (isStream ? bytesPerToken : bytesOfToken))
}
