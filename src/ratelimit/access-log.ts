/**
 * `envoy.service.accesslog.v3.StreamAccessLogsMessage` → the Usage of each response in it.
 *
 * The entry carries the metadata that Check returned (who, what, paid by what) back to us beside
 * what Envoy read from the answer, so that nothing is kept between the two.
 */

import { type EndedStream, failureOf, isAnswered, type Outcome } from '../core/model-failure.ts'
import { type EndedResponse, nothingReported, type Usage } from '../core/usage.ts'
import { type FlatValue, readStruct } from '../grpc/struct.ts'
import { WireReader } from '../grpc/wire.ts'

/** Metadata namespace of the tokens that Envoy lifts from an answer. */
const usageNamespace = 'tollgate.usage'
/** Metadata namespace of Check's answer; Envoy adds the filter's own suffix to it. */
const checkNamespace = 'envoy.filters.http.ext_authz'
/** Metadata namespace of what a script of the gateway found wrong with an answer. */
const failureNamespace = 'tollgate.failure'

/**
 * The metered responses that one message tells of; each says which it was where the gateway keeps
 * a journal besides. `onOutcome` is told how each allowed request ended at its server, metered or not.
 * Throws a WireError for bytes that are no message.
 */
export function readUsages(
  bytes: Buffer,
  journaled = false,
  onOutcome?: (outcome: Outcome) => void,
): readonly Usage[] {
  const usages: Usage[] = []
  const message = new WireReader(bytes)
  while (message.next()) {
    // http_logs = 2; the identifier (1) of a stream's first message is 60 KB of Envoy's node.
    if (message.field !== 2) continue
    const entries = message.message()
    while (entries.next()) {
      if (entries.field !== 1) continue
      const usage = readEntry(entries.message(), journaled, onOutcome)
      if (usage !== undefined) usages.push(usage)
    }
  }
  return usages
}

/** HTTPAccessLogEntry: common_properties = 1, request = 3, response = 4. */
function readEntry(
  entry: WireReader,
  journaled: boolean,
  onOutcome: ((outcome: Outcome) => void) | undefined,
): Usage | undefined {
  let common: Common | undefined
  let id = ''
  let answer: Answer = { status: 0, bytes: 0, details: '' }
  while (entry.next()) {
    if (entry.field === 1) common = readCommon(entry.message(), journaled)
    else if (entry.field === 3) id = readRequestId(entry.message())
    else if (entry.field === 4) answer = readAnswer(entry.message())
  }
  const { check, used, endedAt } = common ?? {}
  if (common !== undefined && check?.has('model')) {
    const ended = { ...common, details: answer.details }
    onOutcome?.({
      model: String(check.get('model')),
      subscription: String(check.get('subscription')),
      requestId: id,
      status: answer.status,
      durationMs: common.durationMs,
      firstByteMs: common.firstByteMs,
      failure: failureOf(ended),
      answered: isAnswered(ended),
    })
  }
  if (check?.get('metered') !== true) return undefined
  const response: EndedResponse | undefined =
    !journaled || id === '' || endedAt === undefined ? undefined : { id, endedAt }
  return {
    user: String(check.get('user')),
    subscription: String(check.get('subscription')),
    model: String(check.get('model')),
    status: answer.status,
    bytes: answer.bytes,
    reported: used ?? nothingReported,
    ...(check.has('group') && { group: String(check.get('group')) }),
    ...(response && { response }),
  }
}

interface Common extends Omit<Mutable<EndedStream>, 'details'> {
  check: ReadonlyMap<string, FlatValue> | undefined
  used: ReadonlyMap<string, FlatValue> | undefined
  endedAt: number | undefined
  durationMs: number
  firstByteMs: number | undefined
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

const noFlags: ReadonlySet<number> = new Set()

/**
 * AccessLogCommon: start_time = 5, time_to_first_upstream_rx_byte = 9, response_flags = 16,
 * metadata = 17, upstream_transport_failure_reason = 18, duration = 23; Metadata: filter_metadata = 1, a
 * map of Structs. The duration ends where that of the journal does (`%DURATION%`).
 */
function readCommon(common: WireReader, journaled: boolean): Common {
  const found: Common = {
    check: undefined,
    used: undefined,
    endedAt: undefined,
    durationMs: 0,
    firstByteMs: undefined,
    flags: noFlags,
    transport: '',
    told: undefined,
  }
  let startedAt: number | undefined
  while (common.next()) {
    if (common.field === 17) readMetadata(common.message(), found)
    else if (common.field === 16) found.flags = readFlags(common.message())
    else if (common.field === 18) found.transport = common.string()
    else if (common.field === 5 && journaled) startedAt = readMilliseconds(common.message())
    else if (common.field === 9) found.firstByteMs = readMilliseconds(common.message())
    else if (common.field === 23) found.durationMs = readMilliseconds(common.message())
  }
  if (startedAt !== undefined) found.endedAt = startedAt + found.durationMs
  return found
}

function readMetadata(metadata: WireReader, found: Common): void {
  while (metadata.next()) {
    if (metadata.field !== 1) continue
    const entry = metadata.message()
    let namespace = ''
    while (entry.next()) {
      if (entry.field === 1) namespace = entry.string()
      else if (entry.field === 2 && namespace === usageNamespace) {
        found.used = readStruct(entry.message())
      } else if (entry.field === 2 && namespace === failureNamespace) {
        found.told = String(readStruct(entry.message()).get('reason'))
      } else if (entry.field === 2 && namespace.startsWith(checkNamespace)) {
        found.check = readStruct(entry.message())
      }
    }
  }
}

/** ResponseFlags: booleans, but for one message (13) about requests that Check refused. */
function readFlags(flags: WireReader): ReadonlySet<number> {
  const found = new Set<number>()
  while (flags.next()) if (flags.field !== 13 && flags.unsigned() === 1) found.add(flags.field)
  return found
}

/** google.protobuf.Timestamp or Duration, seconds = 1, nanos = 2; the rest of a millisecond is cut. */
function readMilliseconds(time: WireReader): number {
  let seconds = 0
  let nanos = 0
  while (time.next()) {
    if (time.field === 1) seconds = time.unsigned()
    else if (time.field === 2) nanos = time.unsigned()
  }
  return seconds * 1_000 + Math.floor(nanos / 1_000_000)
}

/** HTTPRequestProperties: request_id = 9, the x-request-id that Envoy has given it. */
function readRequestId(request: WireReader): string {
  while (request.next()) if (request.field === 9) return request.string()
  return ''
}

type Answer = Pick<Usage, 'status' | 'bytes'> & Pick<EndedStream, 'details'>

/**
 * HTTPResponseProperties: response_code = 1, a UInt32Value; response_body_bytes = 3;
 * response_code_details = 6.
 */
function readAnswer(response: WireReader): Answer {
  let status = 0
  let bytes = 0
  let details = ''
  while (response.next()) {
    if (response.field === 6) details = response.string()
    if (response.field === 3) bytes = response.unsigned()
    if (response.field !== 1) continue
    const wrapped = response.message()
    while (wrapped.next()) if (wrapped.field === 1) status = wrapped.unsigned()
  }
  return { status, bytes, details }
}
