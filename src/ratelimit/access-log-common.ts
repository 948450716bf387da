/**
 * The common properties of an access-log entry: times, outcome, and the metadata of Check and of
 * the gateway's scripts.
 */

import { type AdmittedWindows, parseWindows } from '../core/decision/admitted-windows.ts'
import { type Estimate, parseEstimate } from '../core/decision/unreported.ts'
import type { HeldUsage } from '../core/decision/usage.ts'
import type { EndedStream } from '../core/status/model-failure.ts'
import { type FlatValue, readStruct, StructReader } from '../grpc/struct.ts'
import type { WireReader } from '../grpc/wire.ts'

/** Metadata namespace of the tokens that Envoy extracts from a response. */
const usageNamespace = 'tollgate.usage'
/** Metadata namespace of Check's response; Envoy adds its own fields to it. */
const checkNamespace = 'envoy.filters.http.ext_authz'
/** Metadata namespace for failures that a script of the gateway found in a response. */
const failureNamespace = 'tollgate.failure'
/** Stands for a name that is missing in Check's metadata. */
const missing = String(undefined)

/** Check's metadata of a request. */
export interface Checked {
  user: string
  subscription: string
  /** undefined: the request was not allowed. */
  model: string | undefined
  metered: boolean
  group: string | undefined
  cap: string | undefined
  estimate: Estimate | undefined
  /** What its request holds, and when it was admitted (ms since the epoch). */
  held:
    | Mutable<Pick<HeldUsage, 'admittedAt' | 'bytes' | 'maxOutput' | 'choices' | 'cap' | 'windows'>>
    | undefined
}

/** The properties that all protocols of the log have in common. */
export interface LoggedStream extends Omit<Mutable<EndedStream>, 'details'> {
  check: Checked | undefined
  used: ReadonlyMap<string, FlatValue> | undefined
  endedAt: number | undefined
  durationMs: number
  firstByteMs: number | undefined
  /** Whether its request still runs. */
  isRunning: boolean
  /** Whether the request has been sent to the model. */
  isSent: boolean
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

/** AccessLogType.DownstreamPeriodic. */
const downstreamPeriodic = 5

const noFlags: ReadonlySet<number> = new Set()

/**
 * AccessLogCommon: start_time = 5, time_to_last_upstream_tx_byte = 8, time_to_first_upstream_rx_byte = 9, response_flags = 16,
 * metadata = 17, upstream_transport_failure_reason = 18, duration = 23; Metadata: filter_metadata =
 * 1, a map of Structs; access_log_type = 33. The duration ends when that of the journal does (`%DURATION%`).
 */
export function readCommon(common: WireReader, journaled: boolean): LoggedStream {
  const found: LoggedStream = {
    check: undefined,
    used: undefined,
    endedAt: undefined,
    durationMs: 0,
    firstByteMs: undefined,
    flags: noFlags,
    transport: '',
    isRunning: false,
    isSent: false,
    reported: undefined,
  }
  let startedAt: number | undefined
  while (common.next()) {
    if (common.field === 17) readMetadata(common, found)
    else if (common.field === 16) found.flags = readFlags(common)
    else if (common.field === 18) found.transport = common.string()
    else if (common.field === 5 && journaled) startedAt = readMilliseconds(common)
    else if (common.field === 8) found.isSent = true
    else if (common.field === 9) found.firstByteMs = readMilliseconds(common)
    else if (common.field === 33) found.isRunning = common.unsigned() === downstreamPeriodic
    else if (common.field === 23) found.durationMs = readMilliseconds(common)
  }
  if (startedAt !== undefined) found.endedAt = startedAt + found.durationMs
  return found
}

const defaultNamespaces = [checkNamespace, usageNamespace]
const checkNames = [
  'user',
  'key',
  'subscription',
  'model',
  'metered',
  'group',
  'cap',
  'dialect',
  'credential',
  'payer',
  ...['admitted', 'body_bytes', 'max_output', 'choices', 'ceiling', 'estimate', 'windows'],
]
const usageNames = ['total_tokens', 'prompt_tokens', 'completion_tokens', 'details_cached_tokens']

/** The current field, a Metadata. */
function readMetadata(reader: WireReader, found: LoggedStream): void {
  const end = reader.enter()
  while (reader.next()) {
    if (reader.field !== 1) continue
    const entryEnd = reader.enter()
    let namespace = ''
    while (reader.next()) {
      if (reader.field === 1) namespace = reader.string(defaultNamespaces)
      else if (reader.field === 2) readNamespace(reader, namespace, found)
    }
    reader.leave(entryEnd)
  }
  reader.leave(end)
}

/** The current field, a Struct of this namespace. */
function readNamespace(reader: WireReader, namespace: string, found: LoggedStream): void {
  const isUsage = namespace === usageNamespace
  const isFailure = namespace === failureNamespace
  if (!isUsage && !isFailure && !namespace.startsWith(checkNamespace)) return
  const end = reader.enter()
  if (isUsage) found.used = readStruct(reader, usageNames)
  else if (isFailure) found.reported = String(readStruct(reader).get('reason'))
  else found.check = readCheck(reader)
  reader.leave(end)
}

function readCheck(reader: WireReader): Checked {
  const check: Checked = {
    user: missing,
    subscription: missing,
    model: undefined,
    metered: false,
    group: undefined,
    cap: undefined,
    estimate: undefined,
    held: undefined,
  }
  // A struct's fields come in any order.
  let admittedAt: number | undefined
  let bytes: number | undefined
  let maxOutput: number | undefined
  let choices: number | undefined
  let ceiling: number | undefined
  let windows: AdmittedWindows | undefined
  const fields = new StructReader(reader, checkNames)
  while (fields.next()) {
    const { value } = fields
    switch (fields.key) {
      case 'user':
        check.user = String(value)
        break
      case 'subscription':
        check.subscription = String(value)
        break
      case 'model':
        check.model = String(value)
        break
      case 'metered':
        check.metered = value === true
        break
      case 'group':
        check.group = String(value)
        break
      case 'cap':
        check.cap = String(value)
        break
      case 'estimate':
        check.estimate = parseEstimate(value)
        break
      case 'admitted':
        admittedAt = Number(value)
        break
      case 'body_bytes':
        bytes = Number(value)
        break
      case 'max_output':
        maxOutput = Number(value)
        break
      case 'choices':
        choices = Number(value)
        break
      case 'ceiling':
        ceiling = Number(value)
        break
      case 'windows':
        windows = parseWindows(value)
        break
    }
  }
  if (admittedAt !== undefined) {
    check.held = { admittedAt, bytes, maxOutput, choices, cap: ceiling, windows }
  }
  return check
}

/**
 * The current field, ResponseFlags: booleans, except for one message (13) about requests that Check
 * refused.
 */
function readFlags(reader: WireReader): ReadonlySet<number> {
  const end = reader.enter()
  let found: Set<number> | undefined
  while (reader.next()) {
    if (reader.field === 13 || reader.unsigned() !== 1) continue
    found ??= new Set()
    found.add(reader.field)
  }
  reader.leave(end)
  return found ?? noFlags
}

/**
 * The current field, a google.protobuf.Timestamp or Duration, seconds = 1, nanos = 2, truncated to
 * milliseconds.
 */
function readMilliseconds(reader: WireReader): number {
  const end = reader.enter()
  let seconds = 0
  let nanos = 0
  while (reader.next()) {
    if (reader.field === 1) seconds = reader.unsigned()
    else if (reader.field === 2) nanos = reader.unsigned()
  }
  reader.leave(end)
  return seconds * 1_000 + Math.floor(nanos / 1_000_000)
}
