import { afterSubject, beforeSubject, type LineRequest } from '../../src/usage/rules/line-head.ts'

/** The whole object that Check writes in parts; `subject` is what `writeSubject` returned. */
export function writeLineHead(asked: LineRequest, subject: string): string {
  return beforeSubject(asked) + subject + afterSubject(asked)
}
