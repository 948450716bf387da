/** Finds the fields of a document that its schema does not have. */

import { type FieldPath, type FieldProblem, formatPath } from './fields.ts'
import { nearestName } from './nearest-name.ts'
import type { Schema } from './schema.ts'

export interface UnknownField extends FieldProblem {
  /** The closed object that the field disables, if any. */
  readonly closed: FieldPath | undefined
}

/** Maximum number of unknown fields that are named: in each closed object, and outside of them. */
const maxNamed = { closed: 3, open: 20 }
/** Maximum number of fields of an object that a message lists. */
const maxListed = 20

/**
 * The unknown fields of a document, each with a suggested name: not all if there are many, but at least one of each
 * closed object, and the first one outside of them that `matters`. The contents of unknown fields are ignored.
 */
export function findUnknownFields(
  document: unknown,
  schema: Schema,
  matters: (path: FieldPath) => boolean = () => false,
): readonly UnknownField[] {
  const found: UnknownField[] = []
  const path: (string | number)[] = []
  /** The closed object around the current place, and how many fields of it may still be named. */
  let closed: { readonly path: FieldPath; left: number } | undefined
  const open = { path: undefined, left: maxNamed.open }
  let isWaiting = true

  function visit(value: unknown, of: Schema): void {
    if (typeof value !== 'object' || value === null) return
    const isOuter = of.closed === true && closed === undefined
    if (isOuter) closed = { path: [...path], left: maxNamed.closed }
    if (Array.isArray(value)) visitItems(value, of)
    else visitFields(value as Readonly<Record<string, unknown>>, of)
    if (isOuter) closed = undefined
  }

  function visitItems(values: readonly unknown[], { items }: Schema): void {
    if (items === undefined) return
    for (const [index, value] of values.entries()) visitInside(index, value, items)
  }

  function visitFields(fields: Readonly<Record<string, unknown>>, of: Schema): void {
    const { properties } = of
    if (properties === undefined) return
    for (const name of Object.keys(fields)) {
      const known = Object.hasOwn(properties, name) ? properties[name] : undefined
      if (known !== undefined) visitInside(name, fields[name], known)
      else if (of.others?.includes(name) !== true) note(name, Object.keys(properties), of.others)
    }
  }

  function visitInside(step: string | number, value: unknown, of: Schema): void {
    path.push(step)
    visit(value, of)
    path.pop()
  }

  function note(name: string, read: readonly string[], others: readonly string[] = []): void {
    const around = closed ?? open
    const field = [...path, name]
    const isFirst = around === open && isWaiting && matters(field)
    if (isFirst) isWaiting = false
    else if (around.left === 0) return
    else around.left -= 1
    const message = `is not known here${hintFor(name, { read, others }, schema)}`
    found.push({ path: field, message, isMild: true, closed: around.path })
  }

  visit(document, schema)
  return found
}

interface Siblings {
  readonly read: readonly string[]
  readonly others: readonly string[]
}

/** Suggests the nearest name, else where the field belongs, else the names that exist. */
function hintFor(name: string, { read, others }: Siblings, root: Schema): string {
  const nearest = nearestName(name, [...read, ...others])
  if (nearest !== undefined) return ` (did you mean ${nearest}?)`
  const elsewhere = placeOf(name, root, [])
  if (elsewhere !== undefined) return ` (it belongs to ${elsewhere})`
  const listed = read.slice(0, maxListed).join(', ')
  return ` (known are ${listed}${read.length > maxListed ? ', …' : ''})`
}

/** The object of the schema that has a field with this name. */
function placeOf(name: string, of: Schema, path: readonly string[]): string | undefined {
  const { properties = {}, items } = of
  if (items !== undefined) return placeOf(name, items, [...path.slice(0, -1), `${path.at(-1)}[]`])
  if (path.length > 0 && Object.hasOwn(properties, name)) return formatPath(path)
  for (const [field, inside] of Object.entries(properties)) {
    const found = placeOf(name, inside, [...path, field])
    if (found !== undefined) return found
  }
  return undefined
}
