/** Secrets out of text that somebody else wrote, before it is kept anywhere. */

/** API keys of every marker, mistyped ones too, and JSON Web Tokens. */
const secrets = /\bsk-[a-z0-9]{1,16}-[0-9A-Za-z_-]{8,}|\bey[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_.-]+/g

/** The text with `[redacted]` where it holds what looks like a key or a token. */
export function redact(text: string): string {
  return text.replace(secrets, '[redacted]')
}

/** A client's own text as it is logged and traced: redacted, and of 256 characters at most. */
export function toShown(text: string): string {
  return redact(text).slice(0, 256)
}
