/** YAML text → documents as plain values, with the lines of their fields, in linear time. */

import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseAllDocuments,
} from 'yaml'
import type { FieldPath } from '../../formats/fields.ts'
import { mergeKeys } from '../../formats/merge-keys.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import { lineOfPath } from '../../runtime/yaml-lines.ts'

export interface YamlDocument {
  /** undefined if it is invalid. */
  readonly value: unknown
  /** Why it is invalid, and where. */
  readonly problem: { readonly line: number; readonly message: string } | undefined
  /** From 1: the line of a field, or of its nearest existing ancestor. */
  lineOf(path: FieldPath): number
  /** The lines of the node at a path, and of the fields in it, some levels deep. */
  linesOf(path: FieldPath): Lines
}

/** The lines of a node and of its fields or items. */
export interface Lines {
  readonly line: number
  readonly inside: ReadonlyMap<unknown, Lines> | undefined
}

/** Maximum number of anchors and aliases in one document, and of values that aliases add to it; more is an attack. */
const maxAliases = 10_000
const maxAliased = 100_000
/** Lines of fields deeper than this are not stored. */
const linesDepth = 3

/**
 * All documents of a text; an invalid one does not affect the others. The parser's own search for
 * repeated keys, and its excerpts for messages, would take quadratic time.
 */
export function parseYaml(text: string): readonly YamlDocument[] {
  const lines = new LineCounter()
  // For the parser's warnings Node would write lines into the log. Tags of YAML 1.1 would make values without fields.
  const options = {
    ...{ lineCounter: lines, prettyErrors: false, uniqueKeys: false },
    ...{ schema: 'core', resolveKnownTags: false },
    logLevel: 'error',
  } as const
  const hasMerges = text.includes('<<')
  return [...parseAllDocuments(text, options)].map((document) => {
    const at = (position: number): number => lines.linePos(position).line
    const lineOf = (path: FieldPath): number => lineOfPath(document, path, lines)
    const { value, problem } = read(document, at, hasMerges)
    return {
      value,
      problem,
      lineOf,
      linesOf: (path) => linesIn(document.getIn(path, true), lineOf(path), at, linesDepth),
    }
  })
}

function read(
  document: Document,
  lineAt: (position: number) => number,
  hasMerges: boolean,
): Pick<YamlDocument, 'value' | 'problem'> {
  const fail = (line: number, message: string) => ({ value: undefined, problem: { line, message } })
  const [broken] = document.errors
  if (broken !== undefined) {
    const [sentence = ''] = broken.message.split('\n')
    const isNested = broken.code === 'BLOCK_AS_IMPLICIT_KEY'
    return fail(lineAt(broken.pos[0]), isNested ? `${sentence}${mendOfNested}` : sentence)
  }
  const start = lineAt(document.contents?.range?.[0] ?? document.range?.[0] ?? 0)
  try {
    const repeated = findRepeatedKey(document.contents)
    if (repeated !== undefined) {
      const { at, name } = repeated
      return fail(
        lineAt(at),
        `Map keys must be unique, and ${name.slice(0, 64)} is there twice${mendOfRepeated(name)}`,
      )
    }
    const value: unknown = document.toJS({ maxAliasCount: -1 })
    refuseExpansion(value)
    return { value: hasMerges ? mergeKeys(value) : value, problem: undefined }
  } catch (error) {
    return fail(start, errorMessage(error))
  }
}

const mendOfNested = '; check the indentation, and quote a text that contains a colon and a blank'

function mendOfRepeated(name: string): string {
  // In braces YAML reads 2,000,000 as the number 2 and two fields named 000.
  if (/^[0-9]+$/.test(name)) return '; write numbers without separators'
  return /^(apiVersion|kind)$/.test(name) ? '; a line --- separates resources' : ''
}

/** Throws if aliases add too many values to a document, or contain themselves: readers go through each of them. */
function refuseExpansion(root: unknown): void {
  const sizes = new Map<unknown, number>()
  let written = 0

  function sizeOf(value: unknown): number {
    const known = sizes.get(value)
    if (known !== undefined) return known
    written += 1
    if (typeof value !== 'object' || value === null) return 1
    sizes.set(value, Number.POSITIVE_INFINITY)
    let size = 1
    for (const inside of Object.values(value)) size += sizeOf(inside)
    sizes.set(value, size)
    return size
  }

  if (sizeOf(root) - written > maxAliased) {
    throw new Error(`aliases add more than ${maxAliased} values, or contain themselves`)
  }
}

/** The first key that its map has twice, and its position; throws if there are too many anchors and aliases. */
function findRepeatedKey(
  root: unknown,
): { readonly at: number; readonly name: string } | undefined {
  const open = [root]
  let left = maxAliases
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    // Counted together, because the parser compares each alias with all anchors and aliases.
    if (isAlias(node) || (isNode(node) && node.anchor)) left -= 1
    if (left < 0) throw new Error(`more than ${maxAliases} anchors and aliases`)
    if (isSeq(node)) open.push(...node.items.filter(isNode))
    if (!isMap(node)) continue
    const known = new Set<string>()
    for (const { key, value } of node.items) {
      if (isNode(value)) open.push(value)
      if (!isScalar(key)) {
        open.push(key)
        continue
      }
      const name = String(key.value)
      if (known.has(name)) return { at: key.range?.[0] ?? 0, name: key.source ?? name }
      known.add(name)
    }
  }
  return undefined
}

function linesIn(
  node: unknown,
  line: number,
  lineAt: (position: number) => number,
  depth: number,
): Lines {
  if (depth === 0 || !(isMap(node) || isSeq(node))) return { line, inside: undefined }
  const inside = new Map<unknown, Lines>()
  const add = (name: unknown, value: unknown): void => {
    if (!isNode(value) || !value.range) return
    inside.set(name, linesIn(value, lineAt(value.range[0]), lineAt, depth - 1))
  }
  if (isSeq(node)) for (const [index, item] of node.items.entries()) add(index, item)
  else for (const { key, value } of node.items) if (isScalar(key)) add(key.value, value)
  return { line, inside }
}
