/** Names of others in messages for people. */

import { redact } from './redact.ts'

/** The most characters of a name that a message quotes. */
const maxQuoted = 100
/** Control and format characters, surrogates and separators other than the space. */
const unprintable = /[\p{C}\p{Zl}\p{Zp}]/gu

/** A name that a client wrote: bounded, without keys, in one line and with nothing invisible. */
export function toQuoted(name: string): string {
  const shown = redact(name.slice(0, 4 * maxQuoted))
  const bounded = shown.length > maxQuoted ? `${shown.slice(0, maxQuoted)}…` : shown
  return JSON.stringify(bounded.toWellFormed()).replace(
    unprintable,
    (each) => `\\u{${each.codePointAt(0)?.toString(16)}}`,
  )
}
