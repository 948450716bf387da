/**
 * Parses a line. The lines of both files have this form: of `usage.jsonl`, written by the gateway's script, and of
 * `usage.envoy.jsonl`, written by Envoy itself for running requests and for those that the script did not write. Fields:
 *
 * | field | |
 * |---|---|
 * | `v` | version of the format, 1 |
 * | `type` | Envoy only: `DownstreamEnd`, or `DownstreamPeriodic` while the request runs |
 * | `check` | caller, model, start and hold: an object, or its text (usage/rules/line-head.ts) |
 * | `metered` | true: the tokens count |
 * | `fb`, `ms` | milliseconds from the request's first byte to the first and the last of the response |
 * | `status`, `bytes` | of the response; status 0: there was none |
 * | `sent` | milliseconds until the request was sent to the model completely; true: it was; null: it was not |
 * | `reported` | the usage reported so far (Reported), an object or its text; null: none |
 * | `flags`, `details`, `transport` | Envoy's: response flags (`-`: none), details of the response, why its connection failed |
 * | `failure` | the failure that a script of the gateway detected |
 * | `lane` | what the script added to its lane, `<file> <tokens> <block>[ <block>]`; `-`, null: nothing |
 *
 * Lines without `v` have the previous format (earlier-line.ts).
 */

import { isObject } from '../formats/fields.ts'
import type { Mutable } from '../formats/mutable.ts'
import { parseObject } from '../formats/parse-json.ts'
import { type Lane, parseLane } from '../table/rules/lane.ts'
import { type CountableLine, chargeOfLine } from '../usage/rules/line-charges.ts'
import { type EndedStream, hasClientDisconnected } from '../usage/rules/model-failure.ts'
import { isWholeNumber, type LineHead, parseLineHead } from '../usage/rules/read-line-head.ts'
import type { UnusableUsage } from '../usage/rules/usage.ts'
import { convertEarlierLine, earlierLineStarts } from './earlier-line.ts'

/** Every admitted request has exactly one line `ended`, and before it one `running` every 10 s. */
export interface JournalLine extends CountableLine, EndedStream {
  /** Whether a Check or the decision table admitted the request. */
  readonly by: 'check' | 'table'
  /** Milliseconds from the request's first byte to the response's, or undefined if there was no response. */
  readonly firstByteMs: number | undefined
  /** What the script added to a lane of the table, or undefined if nothing. */
  readonly lane: Lane | undefined
  /** Whether the request was sent to its model. */
  readonly isSent: boolean
}

/**
 * First bytes of Envoy's lines. Envoy does not frame its writes, so a torn line may precede a whole one; strings can't
 * contain these bytes, because their quotes would be escaped.
 */
const beginnings = ['{"bytes":', ...earlierLineStarts]
/** First bytes of the script's lines, which are framed. */
const ofScript = '{"v"'

/**
 * Returns undefined for a torn line or an unknown format. Never throws. Charges the response, unless `unusableUsage` is
 * missing: then `charge` is undefined.
 */
export function parseJournalLine(
  text: string,
  unusableUsage?: UnusableUsage,
): JournalLine | undefined {
  const found = parseObject(text) ?? parseRest(text)
  const fields = found !== undefined && found.v === undefined ? convertEarlierLine(found) : found
  if (fields?.v !== 1) return undefined
  const head = parseLineHead(fields.check)
  const line = head && toLine(fields, head)
  if (line !== undefined && unusableUsage !== undefined) {
    line.charge = chargeOfLine(line, unusableUsage)
  }
  return line
}

/** Whether a torn line of Envoy precedes what `parseJournalLine` reads. */
export function isAfterTorn(text: string): boolean {
  return !text.startsWith(ofScript) && beginnings.some((each) => text.indexOf(each, 1) > 0)
}

function parseRest(text: string): Fields | undefined {
  const at = Math.max(...beginnings.map((each) => text.lastIndexOf(each)))
  return at > 0 ? parseObject(text.slice(at)) : undefined
}

type Fields = Readonly<Record<string, unknown>>

function toLine(fields: Fields, head: LineHead): Mutable<JournalLine> | undefined {
  const { type, ms, fb, status, bytes, sent, reported } = fields
  const [isOfScript, isRunning] = [type === undefined, type === 'DownstreamPeriodic']
  if (!isOfScript && !isRunning && type !== 'DownstreamEnd') return undefined
  if (!isWholeNumber(ms) || !isWholeNumber(status)) return undefined
  const flags = textOf(fields.flags)
  const isSent = sent === true || isWholeNumber(sent)
  const figures = typeof reported === 'string' ? parseObject(reported) : reported
  const { startedAt, by, held, usage } = head
  const { id } = usage.response
  usage.status = status
  if (isWholeNumber(bytes)) usage.bytes = bytes
  if (isObject(figures)) usage.reported = new Map(Object.entries(figures))
  usage.response = { id, endedAt: startedAt + ms }
  if (held !== undefined) usage.held = { ...held, id, tookMs: ms, isBroken: flags !== '' }
  if (status === 0 && isSent && hasClientDisconnected(flags)) usage.hasLeft = true
  return {
    state: isRunning ? 'running' : 'ended',
    // The table admits metered requests only, and without a Check the flag is not set.
    isMetered: fields.metered === true || by === 'table',
    by,
    usage,
    charge: undefined,
    startedAt,
    firstByteMs: isWholeNumber(fb) ? fb : undefined,
    flags,
    // The script writes lines only for responses of the model server.
    details: isOfScript ? 'via_upstream' : textOf(fields.details),
    isSent,
    transport: textOf(fields.transport),
    failure: textOf(fields.failure) || undefined,
    lane: parseLane(fields.lane),
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' && value !== '-' ? value : ''
}
