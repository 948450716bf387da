import { randomUUID } from 'node:crypto'

/** Fields of a line; by default one token of ann's for llm/sim, just now. */
export interface LineFields {
  readonly id?: string
  readonly user?: string
  readonly subscription?: string
  readonly model?: string
  readonly key?: string | null
  readonly payer?: string | null
  readonly group?: string | null
  readonly cap?: string | null
  readonly estimate?: string
  readonly prices?: string
  readonly weights?: string
  readonly limits?: readonly string[]
  readonly key_limits?: readonly string[]
  readonly pool?: string
  readonly cost_limit?: boolean
  /** Milliseconds since the epoch. */
  readonly start?: number
  readonly ms?: number
  readonly status?: number
  readonly bytes?: number
  readonly reported?: object | null
  readonly metered?: boolean
}

const usual = {
  ...{ user: 'ann', subscription: 'plenty', model: 'llm/sim', ms: 0, status: 200, bytes: 100 },
  ...{ reported: { total_tokens: 1 }, metered: true },
}

/** A line as the gateway's script writes it, with both newlines. */
export function scriptLine(fields: LineFields = {}): string {
  const { metered, ms, bytes, status, reported, ...head } = { ...usual, ...fields }
  const check = headOf(head)
  const line = { v: 1, metered, fb: 0, ms, bytes, status, sent: true, reported, check }
  return `\n${JSON.stringify(line)}\n`
}

/** A line as Envoy itself writes it; `type`: DownstreamPeriodic for a request that is running. */
export function envoyLine(
  fields: LineFields & { readonly type?: string; readonly flags?: string } = {},
): string {
  const { metered, ms, bytes, status, reported, type, flags, ...head } = {
    ...{ ...usual, type: 'DownstreamEnd', flags: '-' },
    ...fields,
  }
  const line = {
    ...{ bytes, check: JSON.stringify(headOf(head)), details: 'via_upstream', failure: null },
    ...{ fb: 0, flags, metered, ms, reported, sent: 0, status, transport: null, type, v: 1 },
  }
  return `${JSON.stringify(line)}\n`
}

/** A line in the previous format. */
export function earlierLine(fields: LineFields = {}): string {
  const { metered: _, start = Date.now(), ...rest } = { ...usual, ...fields }
  const { bytes, group = null, id = randomUUID(), ...others } = rest
  return `${JSON.stringify({ bytes, group, id, start: String(start), ...others })}\n`
}

function headOf({ start = Date.now(), id = randomUUID(), ...asked }: LineFields) {
  return { start, id, by: 'check', ...asked }
}
