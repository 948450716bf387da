import {
  headAfterSubject,
  headBeforeSubject,
  type LineRequest,
} from '../../src/usage/rules/line-head.ts'
import { parseLineHead } from '../../src/usage/rules/read-line-head.ts'

/** The whole object that Check writes in parts; `subject` is what `formatSubject` returned. */
export function writeLineHead(asked: LineRequest, subject: string): string {
  return headBeforeSubject(asked) + subject + headAfterSubject(asked)
}

/** A head as the service reads it, in one object, without what only a whole line says. */
export function readHead(written: unknown) {
  const read = parseLineHead(written)
  if (read === undefined) return undefined
  const { usage, ...head } = read
  const { status, bytes, reported, response, ...ofHead } = usage
  return { ...head, id: response.id, ...ofHead }
}
