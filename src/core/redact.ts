/** Removes secrets from text of others before it is stored or logged. */

/** API keys with any marker, also mistyped ones, and JSON Web Tokens. */
const secrets = /\bsk-[a-z0-9]{1,16}-[0-9A-Za-z_-]{8,}|\bey[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_.-]+/g

/** The text with everything that looks like a key or a token replaced by `[redacted]`. */
export function redact(text: string): string {
  return text.replace(secrets, '[redacted]')
}

/** A client's text for logs and traces: redacted, and at most 256 characters. */
export function toShown(text: string): string {
  return redact(text).slice(0, 256)
}
