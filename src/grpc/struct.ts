/** google.protobuf.Struct (Envoy's metadata), read and written for flat values only. */

import { type WireReader, type WireWriter, wireType } from './wire.ts'

/** A value of a flat Struct; nested structs, lists and null are read as undefined. */
export type FlatValue = string | number | boolean | undefined

/** The top-level fields of a Struct message; names in `known` are reused strings. */
export function readStruct(struct: WireReader, known?: readonly string[]): Map<string, FlatValue> {
  const values = new Map<string, FlatValue>()
  const fields = new StructReader(struct, known)
  while (fields.next()) values.set(fields.key, fields.value)
  return values
}

/**
 * Iterates over the top-level fields of a Struct: `while (fields.next())`, then `key` and `value`.
 */
export class StructReader {
  readonly #reader: WireReader
  readonly #known: readonly string[] | undefined
  key = ''
  value: FlatValue = undefined

  /** `struct` is at the beginning of the message; names in `known` are reused strings. */
  constructor(struct: WireReader, known?: readonly string[]) {
    this.#reader = struct
    this.#known = known
  }

  next(): boolean {
    const reader = this.#reader
    while (reader.next()) {
      if (reader.field !== 1) continue
      const end = reader.enter()
      this.key = ''
      this.value = undefined
      while (reader.next()) {
        if (reader.field === 1) this.key = reader.string(this.#known)
        else if (reader.field === 2) this.value = readValue(reader)
      }
      reader.leave(end)
      return true
    }
    return false
  }
}

/** The current field, a Value. */
function readValue(reader: WireReader): FlatValue {
  const end = reader.enter()
  let value: FlatValue
  while (reader.next()) {
    if (reader.field === 2 && reader.type === wireType.fixed64) value = reader.double()
    else if (reader.field === 3) value = reader.string()
    else if (reader.field === 4) value = reader.unsigned() === 1
  }
  reader.leave(end)
  return value
}

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
  const entry = writer.open(1)
  writer.string(1, key)
  const wrapped = writer.open(2)
  if (typeof value === 'string') writer.string(3, value)
  else if (typeof value === 'number') writer.double(2, value)
  else writer.unsigned(4, value ? 1 : 0)
  writer.close(wrapped).close(entry)
}
