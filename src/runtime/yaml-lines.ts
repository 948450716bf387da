/** Where the fields of a YAML document are written. */

import { type Document, isMap, isNode, isScalar, isSeq, type LineCounter } from 'yaml'

/** The line of a field's name or item, from 1, or of its nearest existing ancestor. */
export function lineOfPath(
  { contents, range }: Document,
  path: readonly (string | number)[],
  lines: LineCounter,
): number {
  let node: unknown = contents
  let start = contents?.range?.[0] ?? range?.[0] ?? 0
  for (const step of path) {
    const pair = isMap(node)
      ? node.items.find(({ key }) => isScalar(key) && key.value === step)
      : undefined
    const item = isSeq(node) ? node.items[Number(step)] : undefined
    const named = pair?.key ?? item
    if (!isNode(named) || !named.range) break
    start = named.range[0]
    node = pair?.value ?? item
  }
  return lines.linePos(start).line
}
