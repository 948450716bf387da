import { afterSubject, beforeSubject, type LineRequest } from '../../src/usage/rules/line-head.ts'
import { readLineHead } from '../../src/usage/rules/read-line-head.ts'

/** The whole object that Check writes in parts; `subject` is what `writeSubject` returned. */
export function writeLineHead(asked: LineRequest, subject: string): string {
  return beforeSubject(asked) + subject + afterSubject(asked)
}

/** A head as the service reads it, in one object, without what only a whole line says. */
export function readHead(written: unknown) {
  const read = readLineHead(written)
  if (read === undefined) return undefined
  const { usage, ...head } = read
  const { status, bytes, reported, response, ...ofHead } = usage
  return { ...head, id: response.id, ...ofHead }
}
