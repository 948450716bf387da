/** The objects of a document: itself, or the items of a list as `kubectl get -o yaml` prints it. */

import { type FieldPath, isObject } from '../../../formats/fields.ts'

interface ListedObject {
  readonly object: unknown
  readonly path: FieldPath
}

/** Kinds like `List` and `ModelRefList`. */
const listKind = /List$/

/** In order, with their paths in the document. A list in a list is opened, too. */
export function listedObjects(document: unknown, path: FieldPath = []): readonly ListedObject[] {
  if (!isObject(document) || !Array.isArray(document.items)) return [{ object: document, path }]
  const { apiVersion, kind, items } = document
  if (typeof kind !== 'string' || !listKind.test(kind)) return [{ object: document, path }]
  return items.flatMap((item: unknown, index) =>
    listedObjects(kind === 'List' ? item : withKind(item, apiVersion, kind), [
      ...path,
      'items',
      index,
    ]),
  )
}

/** The API server leaves out the kind of an item that the list's own says. */
function withKind(item: unknown, apiVersion: unknown, kind: string): unknown {
  return isObject(item) ? { apiVersion, kind: kind.replace(listKind, ''), ...item } : item
}
