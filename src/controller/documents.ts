/** YAML text → resources and problems, each problem with the line it stands in. */

import { type Document, isNode, LineCounter, parse, parseAllDocuments } from 'yaml'
import { type FieldPath, showPath } from '../core/fields.ts'
import { parseResource } from '../core/parse-resource.ts'
import type { Resource } from '../core/resources.ts'
import { isTierMapping } from '../core/tiers.ts'

/** Something wrong in a file. `severity` error: the document is not in force. */
export interface FileProblem {
  readonly file: string
  /** From 1. */
  readonly line: number
  readonly severity: 'error' | 'warning'
  readonly message: string
}

/** A resource, and where in its file a field stands. */
export interface WrittenResource {
  readonly resource: Resource
  readonly file: string
  lineOf(path: FieldPath): number
}

export interface FileContent {
  readonly resources: readonly WrittenResource[]
  readonly problems: readonly FileProblem[]
}

/** Aliases expand to at most this many nodes each; more is an attack, not a resource. */
const aliasLimit = 100
const yamlOptions = { maxAliasCount: aliasLimit, logLevel: 'error' } as const

/** Reads all documents of one file. Never throws: a broken document leaves the others standing. */
export function readDocuments(file: string, text: string): FileContent {
  const resources: WrittenResource[] = []
  const problems: FileProblem[] = []
  for (const part of splitDocuments(text)) {
    const lines = new LineCounter()
    for (const document of parseAllDocuments(part.text, { lineCounter: lines })) {
      const lineOf = (path: FieldPath): number => part.linesBefore + lineIn(document, path, lines)
      const [broken] = document.errors
      if (broken !== undefined) {
        const line = part.linesBefore + lines.linePos(broken.pos[0]).line
        const message = (broken.message.split('\n')[0] as string).replace(/ at line \d+.*$/, '')
        problems.push({ file, line, severity: 'error', message: `not valid YAML: ${message}` })
        continue
      }
      const found = readDocument(document)
      if (found.resource !== undefined) resources.push({ resource: found.resource, file, lineOf })
      for (const { path, severity, message } of found.problems) {
        problems.push({ file, line: lineOf(path), severity, message })
      }
    }
  }
  return { resources, problems }
}

interface DocumentProblem extends Pick<FileProblem, 'severity' | 'message'> {
  readonly path: FieldPath
}

interface DocumentContent {
  readonly resource?: Resource
  readonly problems: readonly DocumentProblem[]
}

function readDocument(document: Document): DocumentContent {
  const error = (path: FieldPath, message: string): DocumentContent => ({
    problems: [{ path, severity: 'error', message }],
  })
  const value = toValue(document)
  if (value instanceof Error) return error([], `not valid YAML: ${value.message}`)
  if (value === null || value === undefined) return { problems: [] }
  const opened = isTierMapping(value) ? openTiers(value as object) : value
  if (opened instanceof Error) {
    return error(['data', 'tiers'], `${named(value)}data.tiers ${opened.message}`)
  }
  const result = parseResource(opened)
  if ('resource' in result) return { resource: result.resource, problems: [] }
  if ('ignored' in result) {
    if (result.ignored === undefined) return { problems: [] }
    return { problems: [{ path: [], severity: 'warning', message: result.ignored }] }
  }
  return {
    problems: result.problems.map(({ path, message }) => ({
      path,
      severity: 'error',
      message: `${named(value)}${showPath(path)} ${message}`.trim(),
    })),
  }
}

/**
 * The text cut before each `---` that begins a line: that is a document's beginning wherever it
 * stands (YAML 1.2.2, 9.1.2), and cut there, an unclosed quote can't swallow what follows.
 * Directives stay with the document that they are for.
 */
function splitDocuments(text: string): readonly { text: string; linesBefore: number }[] {
  const parts: { text: string; linesBefore: number }[] = []
  let start = 0
  let linesBefore = 0
  for (const { index } of text.matchAll(/^---(?=\s|$)/gm)) {
    const before = text.slice(start, index)
    if (/^(\s*([%#].*)?(\n|$))*$/.test(before)) continue
    parts.push({ text: before, linesBefore })
    linesBefore += before.split('\n').length - 1
    start = index
  }
  parts.push({ text: text.slice(start), linesBefore })
  return parts
}

function toValue(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: aliasLimit })
  } catch (error) {
    return error
  }
}

/** A ConfigMap carries text; here the text of `data.tiers` is YAML of its own. */
function openTiers(mapping: { readonly data?: unknown }): unknown {
  const { data } = mapping
  if (typeof data !== 'object' || data === null || !('tiers' in data)) return mapping
  if (typeof data.tiers !== 'string') return new Error('must be a text, written after a |')
  try {
    return { ...mapping, data: { tiers: parse(data.tiers, yamlOptions) } }
  } catch {
    return new Error('is not valid YAML')
  }
}

/** `Subscription team-a: ` where a document says that much about itself. */
function named(value: unknown): string {
  if (typeof value !== 'object' || value === null) return ''
  const { kind, metadata } = value as { kind?: unknown; metadata?: { name?: unknown } | null }
  if (typeof kind !== 'string') return ''
  const name = metadata?.name
  return typeof name === 'string' ? `${kind} ${name}: ` : `${kind}: `
}

/** The line of a field, or of the nearest thing above it that is there. */
function lineIn(document: Document, path: FieldPath, lines: LineCounter): number {
  for (let depth = path.length; depth > 0; depth -= 1) {
    const node = document.getIn(path.slice(0, depth), true)
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line
  }
  const start = document.contents?.range?.[0] ?? document.range?.[0] ?? 0
  return lines.linePos(start).line
}
