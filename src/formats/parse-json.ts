import { isObject, type JsonObject } from './fields.ts'

/** The value of a JSON text; undefined if it is not JSON. The parser's own message would quote the text. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The object of a JSON text; undefined if it is not JSON, or not an object. */
export function parseObject(text: string): JsonObject | undefined {
  const value = parseJson(text)
  return isObject(value) ? value : undefined
}
