/** Removes secrets from others' text before it is stored or logged. */

/** API keys with any marker, also mistyped ones. */
const keys = /\bsk-[a-z0-9]{1,16}-[0-9A-Za-z_-]{8,}/g
/**
 * JSON Web Tokens, after the first group. It begins at the first character of a run, so that a run
 * without a token is read once, and not once for each `ey` in it.
 */
const tokens =
  /(?<![0-9A-Za-z_-])((?:(?!\bey)[0-9A-Za-z_-])*)\bey[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_.-]+/g

/** The text with everything that looks like a key or a token replaced by `[redacted]`. */
export function redact(text: string): string {
  return text.replace(tokens, '$1[redacted]').replace(keys, '[redacted]')
}

/** Enough for the part that is shown, even if a long token in it becomes one word. */
const maxRead = 2_048

/** A client's text for logs and traces: redacted, and at most 256 characters. */
export function redactForLog(text: string): string {
  return redact(text.slice(0, maxRead)).slice(0, 256)
}

/** Maximum number of characters of a name that a message quotes. */
const maxQuoted = 100
/** Control and format characters, surrogates and separators other than the space. */
const unprintable = /[\p{C}\p{Zl}\p{Zp}]/gu

/** A name that a client wrote: bounded, without keys, in one line and with nothing invisible. */
export function quoteName(name: string): string {
  const shown = redact(name.slice(0, 4 * maxQuoted))
  const bounded = shown.length > maxQuoted ? `${shown.slice(0, maxQuoted)}…` : shown
  return JSON.stringify(bounded.toWellFormed()).replace(
    unprintable,
    (each) => `\\u{${each.codePointAt(0)?.toString(16)}}`,
  )
}
