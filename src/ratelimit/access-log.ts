/**
 * `envoy.service.accesslog.v3.StreamAccessLogsMessage` → the Usage of each response in it.
 *
 * An entry contains the metadata that Check returned (user, model, subscription) and what Envoy
 * read from the response, so the service keeps no state in between.
 */

import {
  type EndedResponse,
  type HeldUsage,
  nothingReported,
  type Usage,
} from '../core/decision/usage.ts'
import {
  type EndedStream,
  failureOf,
  isAnswered,
  type Outcome,
} from '../core/status/model-failure.ts'
import { WireReader } from '../grpc/wire.ts'
import { type Checked, type LoggedStream, readCommon } from './access-log-common.ts'
import type { EndedRequest } from './held.ts'

export interface Listeners {
  /** Called for each allowed request, metered or not. */
  readonly onOutcome?: ((outcome: Outcome) => void) | undefined
  /** Called for each one that holds something and is not metered. */
  readonly onUnmetered?: ((ended: EndedRequest) => void) | undefined
  /** Called for each metered one that still runs, with what it has used so far: that is never counted. */
  readonly onRunning?: ((usage: Usage) => void) | undefined
}

/**
 * The metered responses in one message. If the gateway also writes a journal, each has its
 * identity. Throws a WireError for invalid bytes.
 */
export function readUsages(
  bytes: Buffer,
  journaled = false,
  listeners: Listeners = {},
): readonly Usage[] {
  const usages: Usage[] = []
  const message = new WireReader(bytes)
  while (message.next()) {
    // http_logs = 2. The identifier (1) in a stream's first message is skipped: 60 KB of Envoy's
    // node.
    if (message.field !== 2) continue
    const entries = message.message()
    while (entries.next()) {
      if (entries.field !== 1) continue
      const end = entries.enter()
      const usage = readEntry(entries, journaled, listeners)
      entries.leave(end)
      if (usage !== undefined) usages.push(usage)
    }
  }
  return usages
}

/** HTTPAccessLogEntry: common_properties = 1, request = 3, response = 4. */
function readEntry(
  entry: WireReader,
  journaled: boolean,
  { onOutcome, onUnmetered, onRunning }: Listeners,
): Usage | undefined {
  let common: LoggedStream | undefined
  let id = ''
  let answer: Answer = noAnswer
  while (entry.next()) {
    const { field } = entry
    if (field !== 1 && field !== 3 && field !== 4) continue
    const end = entry.enter()
    if (field === 1) common = readCommon(entry, journaled)
    else if (field === 3) id = readRequestId(entry)
    else answer = readAnswer(entry)
    entry.leave(end)
  }
  if (common?.check === undefined) return undefined
  const { check, used, endedAt } = common
  const { user, subscription, model, group, cap } = check
  if (model !== undefined && !common.isRunning) {
    const ended = { ...common, details: answer.details }
    onOutcome?.({
      model,
      subscription,
      requestId: id,
      status: answer.status,
      durationMs: common.durationMs,
      firstByteMs: common.firstByteMs,
      failure: failureOf(ended),
      answered: isAnswered(ended),
    })
  }
  const held = check.held !== undefined && id !== '' ? toHeld(check.held, id, common) : undefined
  if (!check.metered && !common.isRunning) {
    if (held !== undefined) onUnmetered?.({ user, subscription, model: String(model), held })
    return undefined
  }
  const response: EndedResponse | undefined =
    !journaled || id === '' || endedAt === undefined ? undefined : { id, endedAt }
  const usage = {
    user,
    subscription,
    model: String(model),
    status: answer.status,
    bytes: answer.bytes,
    reported: used ?? nothingReported,
    ...(answer.status === 0 && hasLeft(common) && { hasLeft: true }),
    ...(group !== undefined && { group }),
    ...(cap !== undefined && { cap }),
    ...(check.estimate && { estimate: check.estimate }),
    ...(response && { response }),
    ...(held !== undefined && { held }),
  }
  if (!common.isRunning) return usage
  onRunning?.(usage)
  return undefined
}

/** ResponseFlags: downstream_connection_termination = 15, downstream_remote_reset = 28. */
function hasLeft({ isSent, flags }: LoggedStream): boolean {
  return isSent && (flags.has(15) || flags.has(28))
}

function toHeld(
  held: NonNullable<Checked['held']>,
  id: string,
  { durationMs: tookMs, flags }: LoggedStream,
): HeldUsage {
  return { ...held, id, tookMs, isBroken: flags.size > 0 }
}

/** HTTPRequestProperties: request_id = 9, the x-request-id that Envoy has set. */
function readRequestId(request: WireReader): string {
  while (request.next()) if (request.field === 9) return request.string()
  return ''
}

type Answer = Pick<Usage, 'status' | 'bytes'> & Pick<EndedStream, 'details'>

const noAnswer: Answer = { status: 0, bytes: 0, details: '' }
const commonDetails = ['via_upstream']

/**
 * HTTPResponseProperties: response_code = 1, a UInt32Value; response_body_bytes = 3;
 * response_code_details = 6.
 */
function readAnswer(reader: WireReader): Answer {
  let status = 0
  let bytes = 0
  let details = ''
  while (reader.next()) {
    if (reader.field === 6) details = reader.string(commonDetails)
    else if (reader.field === 3) bytes = reader.unsigned()
    else if (reader.field === 1) {
      const end = reader.enter()
      while (reader.next()) if (reader.field === 1) status = reader.unsigned()
      reader.leave(end)
    }
  }
  return { status, bytes, details }
}
