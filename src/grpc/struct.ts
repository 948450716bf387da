/** google.protobuf.Struct (Envoy's metadata), written for flat values only. */

import { varintSize, type WireWriter } from './wire.ts'

/** Writes a Struct as field `field` of the current message. */
export function writeStruct(
  writer: WireWriter,
  field: number,
  values: Readonly<Record<string, string | number | boolean>>,
): void {
  const struct = writer.open(field)
  for (const key in values) writeStructField(writer, key, values[key] as string | number | boolean)
  writer.close(struct)
}

/** Writes a field of the current Struct. */
export function writeStructField(
  writer: WireWriter,
  key: string,
  value: string | number | boolean,
): void {
  const lengthBytes = typeof value === 'string' ? varintSize(value.length) : 1
  const entry = writer.open(1, lengthBytes)
  writer.string(1, key)
  const wrapped = writer.open(2, lengthBytes)
  if (typeof value === 'string') writer.string(3, value)
  else if (typeof value === 'number') writer.double(2, value)
  else writer.unsigned(4, value ? 1 : 0)
  writer.close(wrapped, lengthBytes).close(entry, lengthBytes)
}

/**
 * Begins a text field of the current Struct, which `text` and `raw` (of UTF-8) of the writer continue; `closeStructText` with
 * the returned offsets ends it. `lengthBytes`: the expected size of its length.
 */
export function openStructText(
  writer: WireWriter,
  key: string,
  lengthBytes: number,
): readonly [entry: number, wrapped: number, text: number] {
  const entry = writer.open(1, lengthBytes)
  writer.string(1, key)
  const wrapped = writer.open(2, lengthBytes)
  return [entry, wrapped, writer.open(3, lengthBytes)]
}

export function closeStructText(
  writer: WireWriter,
  [entry, wrapped, text]: ReturnType<typeof openStructText>,
  lengthBytes: number,
): void {
  writer.close(text, lengthBytes).close(wrapped, lengthBytes).close(entry, lengthBytes)
}
