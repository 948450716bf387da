/** google.protobuf.Struct (Envoy's metadata), read and written for flat values only. */

import { type WireReader, type WireWriter, wireType } from './wire.ts'

/** A value of a flat Struct; nested structs, lists and null are read as undefined. */
export type FlatValue = string | number | boolean | undefined

/** The top-level fields of a Struct message. */
export function readStruct(struct: WireReader): Map<string, FlatValue> {
  const fields = new Map<string, FlatValue>()
  while (struct.next()) {
    if (struct.field !== 1) continue
    const entry = struct.message()
    let key = ''
    let value: FlatValue
    while (entry.next()) {
      if (entry.field === 1) key = entry.string()
      else if (entry.field === 2) value = readValue(entry.message())
    }
    fields.set(key, value)
  }
  return fields
}

function readValue(message: WireReader): FlatValue {
  let value: FlatValue
  while (message.next()) {
    if (message.field === 2 && message.type === wireType.fixed64) value = message.double()
    else if (message.field === 3) value = message.string()
    else if (message.field === 4) value = message.unsigned() === 1
  }
  return value
}

/** Writes a Struct as field `field` of the message at hand. */
export function writeStruct(
  writer: WireWriter,
  field: number,
  values: Readonly<Record<string, string | number | boolean>>,
): void {
  const struct = writer.open(field)
  for (const key in values) writeStructField(writer, key, values[key] as string | number | boolean)
  writer.close(struct)
}

/** Writes a field of the Struct at hand. */
export function writeStructField(
  writer: WireWriter,
  key: string,
  value: string | number | boolean,
): void {
  const entry = writer.open(1)
  writer.string(1, key)
  const wrapped = writer.open(2)
  if (typeof value === 'string') writer.string(3, value)
  else if (typeof value === 'number') writer.double(2, value)
  else writer.unsigned(4, value ? 1 : 0)
  writer.close(wrapped).close(entry)
}
