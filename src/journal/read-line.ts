/**
 * The text of a line → what it says. Lines of both files of a folder have this form: those of the gateway's
 * script, `usage.jsonl`, and those of Envoy itself, `usage.envoy.jsonl`, which has what the script did not
 * write, and requests that run. Fields:
 *
 * | field | |
 * |---|---|
 * | `v` | the form, 1 |
 * | `type` | Envoy only: `DownstreamEnd`, or `DownstreamPeriodic` of a request that runs |
 * | `check` | who asked for what, when, and what is held: an object, or its text (usage/rules/line-head.ts) |
 * | `metered` | true: the tokens count |
 * | `fb`, `ms` | milliseconds from the request's first byte to the first and the last of the response |
 * | `status`, `bytes` | of the response; 0: there was none |
 * | `sent` | milliseconds until the request had been sent to the model; true: it had; null: not all of it |
 * | `reported` | figures seen so far (Reported), an object or its text; null: none |
 * | `flags`, `details`, `transport` | Envoy's: response flags (`-`: none), details of the response, why its connection failed |
 * | `failure` | which failure a script of the gateway has seen |
 * | `lane` | what it added where before it was written, `<file> <tokens> <block>[ <block>]`; `-`, null: nothing |
 *
 * Lines without `v` are of the form before (earlier-line.ts).
 */

import { isObject } from '../formats/fields.ts'
import { readLane } from '../table/rules/lane.ts'
import { isWhole, type LineHead, parseObject, readLineHead } from '../usage/rules/read-line-head.ts'
import { sayLeft } from '../usage/rules/response-flags.ts'
import { nothingReported } from '../usage/rules/usage.ts'
import { earlierLines, fromEarlier } from './earlier-line.ts'
import type { ReadLine } from './line.ts'

export type { ReadLine }

/**
 * How each of Envoy's lines begins. Its writes are not framed, so a torn line may be in front of a whole one;
 * no string can contain this, because its quotes would be escaped.
 */
const beginnings = ['{"bytes":', ...earlierLines]
/** How the script's lines begin, which are framed. */
const ofScript = '{"v"'

/** undefined for a torn line, and for one of a form that is not known. Never throws. */
export function readLine(text: string): ReadLine | undefined {
  const found = parseObject(text) ?? parseRest(text)
  const fields = found !== undefined && found.v === undefined ? fromEarlier(found) : found
  if (fields?.v !== 1) return undefined
  const head = readLineHead(fields.check)
  return head && toLine(fields, head)
}

/** Whether a torn line of Envoy's is in front of what `readLine` reads. */
export function isAfterTorn(text: string): boolean {
  return !text.startsWith(ofScript) && beginnings.some((each) => text.indexOf(each, 1) > 0)
}

function parseRest(text: string): Fields | undefined {
  const at = Math.max(...beginnings.map((each) => text.lastIndexOf(each)))
  return at > 0 ? parseObject(text.slice(at)) : undefined
}

type Fields = Readonly<Record<string, unknown>>

type Writable<Value> = { -readonly [Name in keyof Value]: Value[Name] }

function toLine(fields: Fields, head: LineHead): ReadLine | undefined {
  const { type, ms, fb, status, bytes, sent, reported } = fields
  const [isOfScript, isRunning] = [type === undefined, type === 'DownstreamPeriodic']
  if (!isOfScript && !isRunning && type !== 'DownstreamEnd') return undefined
  if (!isWhole(ms) || !isWhole(status)) return undefined
  const flags = textOf(fields.flags)
  const isSent = sent === true || isWhole(sent)
  const figures = typeof reported === 'string' ? parseObject(reported) : reported
  const { startedAt, id, by, held } = head
  const usage: Writable<ReadLine['usage']> = {
    user: head.user,
    subscription: head.subscription,
    model: head.model,
    status,
    bytes: isWhole(bytes) ? bytes : 0,
    reported: isObject(figures) ? new Map(Object.entries(figures)) : nothingReported,
    response: { id, endedAt: startedAt + ms },
  }
  // One by one, as in `readLineHead`.
  if (head.keyId !== undefined) usage.keyId = head.keyId
  if (head.group !== undefined) usage.group = head.group
  if (head.payer !== undefined) usage.payer = head.payer
  if (head.keyCounters !== undefined) usage.keyCounters = head.keyCounters
  if (head.estimate !== undefined) usage.estimate = head.estimate
  if (head.prices !== undefined) usage.prices = head.prices
  if (head.weights !== undefined) usage.weights = head.weights
  if (head.limits !== undefined) {
    usage.limits = head.limits
    if (head.pool !== undefined) usage.pool = head.pool
    if (head.organization !== undefined) usage.organization = head.organization
    if (head.hasCostLimit) usage.hasCostLimit = true
    if (head.chargesAdmission) usage.chargesAdmission = true
  }
  if (held !== undefined) usage.held = { ...held, id, tookMs: ms, isBroken: flags !== '' }
  if (status === 0 && isSent && sayLeft(flags)) usage.hasLeft = true
  return {
    state: isRunning ? 'running' : 'ended',
    // Nothing else is decided without a Check, so nobody has said it.
    isMetered: fields.metered === true || by === 'table',
    by,
    usage,
    startedAt,
    firstByteMs: isWhole(fb) ? fb : undefined,
    flags,
    // The script writes only what the model's server has answered.
    details: isOfScript ? 'via_upstream' : textOf(fields.details),
    isSent,
    transport: textOf(fields.transport),
    failure: textOf(fields.failure) || undefined,
    lane: readLane(fields.lane),
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' && value !== '-' ? value : ''
}
