/** JSON bodies, regardless of their Content-Type (contract, 1). */

import type { FastifyInstance } from 'fastify'
import type { FromSchema, JSONSchema } from 'json-schema-to-ts'
import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import { isPlainText } from '../../formats/plain-text.ts'

/** The type of a body that its schema has accepted; undefined if the body is optional. */
export type BodyOf<Schema extends JSONSchema> =
  FromSchema<Schema, { keepDefaultedPropertiesOptional: true }> extends infer Body
    ? null extends Body
      ? Body | undefined
      : Body
    : never

/** The largest body in bytes. */
export const bodyLimit = 1_048_576

/**
 * Names in a body, including unknown fields; no valid body has more than 50 labels. A name
 * that the process has not seen costs as much as a thousand characters of text.
 */
const maxNames = 300
/** Lists and objects in a body, of which none has many; each costs a hundred times as much as text. */
const maxNested = 300
/** Digits of all numbers, which take longer to read than other text of their length. */
const maxDigits = 2_000
const quote = 0x22
const backslash = 0x5c
const zero = 0x30
const nine = 0x39
const colon = 0x3a
const bracket = 0x5b
const brace = 0x7b

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Parses every body as one JSON value in UTF-8, with nothing before or after it. */
export function readBodies(app: FastifyInstance): void {
  // Even an invalid Content-Type must not matter.
  app.addHook('onRequest', async ({ raw }) => {
    delete raw.headers['content-type']
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, bytes, done) => {
    const excess = excessIn(bytes as Buffer)
    if (excess !== undefined) {
      const message = `The body has more than ${excess}.`
      return done(new ServiceError('invalid_body', { message }))
    }
    const body = parseBody(bytes as Buffer)
    if (body === undefined) {
      done(new ServiceError('invalid_body', { message: 'The body is not valid JSON.' }))
    } else {
      done(null, body.value)
    }
  })
}

/** Discards bodies unread, in a scope whose routes have none. */
export function ignoreBodies(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser('*', (_request, payload, done) => {
    payload.resume()
    done(null)
  })
}

function parseBody(bytes: Buffer): { readonly value: unknown } | undefined {
  try {
    const text = utf8.decode(bytes)
    return /^[ \t\r\n]*$/.test(text) ? { value: undefined } : { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

/** Says which maximum the body exceeds, if any. Outside of strings, JSON has a colon for each name and nowhere else. */
function excessIn(bytes: Buffer): string | undefined {
  if (bytes.length <= Math.min(maxNames, maxNested)) return undefined
  let names = 0
  let nested = 0
  let digits = 0
  let isInString = false
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number
    if (byte === quote) isInString = !isInString
    else if (isInString && byte === backslash) at += 1
    else if (isInString) continue
    if (byte >= zero && byte <= nine) digits += 1
    else if (byte === colon) names += 1
    else if (byte === bracket || byte === brace) nested += 1
    if (digits > maxDigits) return `${maxDigits.toLocaleString('en')} digits`
    if (names > maxNames) return `${maxNames} fields`
    if (nested > maxNested) return `${maxNested} lists and objects`
  }
  return undefined
}

/** Refuses text that is not plain. */
export function requirePlainText(field: string, text: string | undefined): void {
  if (text === undefined || isPlainText(text)) return
  throw invalidRequest(`${field} must not hold NUL characters or lone surrogates.`)
}
