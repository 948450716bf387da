/** Reads a request body as a lenient model server would. */

import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import { isJson, type Json } from './dialect.ts'
import { decodeText, parseLenientJson } from './lenient-json.ts'
import { Refusal } from './refusal.ts'

/** The largest accepted body in bytes, before and after decompression. */
export const BODY_LIMIT_BYTES = 64 * 1024 * 1024

const decompressors = {
  gzip: promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
}

/** Reads the whole body. Throws Refusal 413 above the limit, without reading the rest. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = Number(request.headers['content-length'] ?? 0)
  if (size > BODY_LIMIT_BYTES) throw tooLarge()
  size = 0
  // Not `for await`: leaving that loop early destroys the request, and with it the 413.
  await new Promise<void>((resolve, reject) => {
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= BODY_LIMIT_BYTES) chunks.push(chunk)
      else reject(tooLarge())
    })
    request.once('end', resolve)
    request.once('error', reject)
    request.once('close', () => reject(new Error('The client left before its body was whole')))
  })
  return Buffer.concat(chunks)
}

/** The JSON object in a body, regardless of its content type and compression. Throws Refusal 400 when there is none. */
export async function readJson(bytes: Buffer, encoding: string | undefined): Promise<Json> {
  let value: unknown
  try {
    value = parseLenientJson(decodeText(await decompress(bytes, encoding)))
  } catch (error) {
    const reason = error instanceof Error ? error.message.slice(0, 200) : ''
    throw new Refusal(400, 'invalid_json', `We could not parse the JSON body: ${reason}`)
  }
  if (isJson(value)) return value
  throw new Refusal(400, 'invalid_json', 'The JSON body must be an object')
}

/**
 * A boolean as pydantic reads it in its lax mode, which is how vLLM reads `stream`: 1, "true",
 * "yes" and "on" are true as well. Absent and null are false; anything else is refused with 400.
 */
export function readFlag(body: Json, name: string): boolean {
  const value = body[name]
  const text = String(value ?? false).toLowerCase()
  if (typeof value !== 'object' || value === null) {
    if (['1', 'on', 't', 'true', 'y', 'yes'].includes(text)) return true
    if (['0', 'off', 'f', 'false', 'n', 'no'].includes(text)) return false
  }
  throw new Refusal(400, 'invalid_value', `${name} must be a boolean`)
}

/**
 * Converts keys to lower case; of equal ones the last is used. Go's encoding/json matches keys in this way, including
 * the long s and the Kelvin sign. Goes one level down for `stream_options`.
 */
export function foldKeys(body: Json): Json {
  const folded: Json = {}
  for (const [name, value] of Object.entries(body)) {
    const lower = name.toUpperCase().toLowerCase()
    folded[lower] = lower === 'stream_options' && isJson(value) ? foldKeys(value) : value
  }
  return folded
}

async function decompress(bytes: Buffer, encoding = 'identity'): Promise<Buffer> {
  const name = encoding.trim().toLowerCase()
  if (!Object.hasOwn(decompressors, name)) return bytes
  const decompressor = decompressors[name as keyof typeof decompressors]
  return decompressor(bytes, { maxOutputLength: BODY_LIMIT_BYTES })
}

function tooLarge(): Refusal {
  return new Refusal(413, 'body_too_large', `The body is above ${BODY_LIMIT_BYTES} bytes`)
}
