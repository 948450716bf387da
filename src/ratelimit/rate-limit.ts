/**
 * `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`, for gateways that report usage
 * this way (`apply_on_stream_done`) instead of by an access log. Each descriptor is the Usage of
 * one response, with entries named as in `envoy/README.md`.
 *
 * It counts and never refuses, because Check has already decided and the response has been sent. So
 * it always returns OK, also for other domains, whose limits are unknown here.
 */

import { nothingReported, type Usage } from '../core/decision/usage.ts'
import { WireError, WireReader, WireWriter } from '../grpc/wire.ts'
import type { Settle } from './settle.ts'

/** The `domain` of the gateway's rate limit filter. */
export const domain = 'tollgate'

export interface RateLimitDeps {
  readonly settle: Settle
  /** Called once for each reason why a gateway's reports are not counted. */
  readonly onIgnored: (reason: string) => void
}

/** The relevant part of a RateLimitRequest. */
export interface UsageReport {
  readonly domain: string
  /** One for each descriptor; undefined if the descriptor is not one of ours. */
  readonly usages: readonly (Usage | undefined)[]
}

/** RateLimitResponse.Code */
const ok = 1

/**
 * Handles one RateLimitRequest; throws a WireError for a malformed one, and then counts nothing.
 */
export function createShouldRateLimit({
  settle,
  onIgnored,
}: RateLimitDeps): (bytes: Buffer) => Buffer {
  const logged = new Set<string>()
  function ignore(reason: string): void {
    // A gateway repeats the same mistake with every response, and its text must not fill our
    // memory.
    if (logged.has(reason) || logged.size >= 16) return
    logged.add(reason)
    onIgnored(reason)
  }

  return function shouldRateLimit(bytes) {
    const report = readRateLimit(bytes)
    if (report.domain !== domain) {
      ignore(`the rate limit domain is ${JSON.stringify(report.domain)}, not ${domain}`)
    } else {
      for (const usage of report.usages) {
        if (usage === undefined) ignore('a descriptor lacks an entry, or its call is not metered')
        else settle(usage)
      }
    }
    return allow(report.usages.length)
  }
}

/** RateLimitRequest: domain = 1, descriptors = 2, hits_addend = 3. */
export function readRateLimit(bytes: Buffer): UsageReport {
  let name = ''
  let hitsAddend = 0
  const descriptors: Descriptor[] = []
  const request = new WireReader(bytes)
  while (request.next()) {
    if (request.field === 1) name = request.string()
    else if (request.field === 2) descriptors.push(readDescriptor(request.message()))
    else if (request.field === 3) hitsAddend = request.unsigned()
  }
  if (name === '') throw new WireError('the domain is empty')
  if (descriptors.length === 0) throw new WireError('there is no descriptor')
  // An unset field of the whole request is 0, which is not a report.
  const whole = hitsAddend === 0 ? undefined : hitsAddend
  return { domain: name, usages: descriptors.map((descriptor) => toUsage(descriptor, whole)) }
}

interface Descriptor {
  readonly entries: ReadonlyMap<string, string>
  readonly hitsAddend: number | undefined
}

/** RateLimitDescriptor: entries = 1, at least one; hits_addend = 3, a UInt64Value. */
function readDescriptor(descriptor: WireReader): Descriptor {
  const entries = new Map<string, string>()
  let hitsAddend: number | undefined
  while (descriptor.next()) {
    if (descriptor.field === 1) readEntry(descriptor.message(), entries)
    else if (descriptor.field === 3) hitsAddend = readWrapped(descriptor.message())
  }
  if (entries.size === 0) throw new WireError('a descriptor has no entry')
  return { entries, hitsAddend }
}

/** RateLimitDescriptor.Entry: key = 1, value = 2, neither of them empty. */
function readEntry(entry: WireReader, entries: Map<string, string>): void {
  let key = ''
  let value = ''
  while (entry.next()) {
    if (entry.field === 1) key = entry.string()
    else if (entry.field === 2) value = entry.string()
  }
  if (key === '' || value === '') throw new WireError('a descriptor entry has no key or no value')
  entries.set(key, value)
}

/** A wrapper without a value is zero tokens; a missing wrapper is no report. */
function readWrapped(wrapper: WireReader): number {
  let value = 0
  while (wrapper.next()) if (wrapper.field === 1) value = wrapper.unsigned()
  return value
}

function toUsage(
  { entries, hitsAddend }: Descriptor,
  whole: number | undefined,
): Usage | undefined {
  const user = entries.get('user')
  const subscription = entries.get('subscription')
  const model = entries.get('model')
  const status = entries.get('status')
  if (user === undefined || subscription === undefined) return undefined
  if (model === undefined || status === undefined) return undefined
  if (entries.get('metered') !== 'true') return undefined
  const tokens = hitsAddend ?? whole
  const cap = entries.get('cap')
  return {
    user,
    subscription,
    model,
    status: /^\d{3}$/.test(status) ? Number(status) : 0,
    // The protocol has no field for the response's length.
    bytes: 0,
    ...(cap !== undefined && { cap }),
    reported: tokens === undefined ? nothingReported : new Map([['total_tokens', tokens]]),
  }
}

/** RateLimitResponse: overall_code = 1, statuses = 2 (code = 1), one for each descriptor. */
function allow(descriptors: number): Buffer {
  const writer = new WireWriter(64).unsigned(1, ok)
  for (let i = 0; i < descriptors; i += 1) writer.message(2, () => writer.unsigned(1, ok))
  return writer.finish()
}
