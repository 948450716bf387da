/** YAML text → resources and problems, each problem with the line it stands in. */

import { type Document, isNode, LineCounter, parse, parseAllDocuments } from 'yaml'
import { type FieldPath, showPath } from '../core/fields.ts'
import { parseResource, type Resource } from '../core/resources.ts'
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
  const lines = new LineCounter()
  for (const document of parseAllDocuments(text, { lineCounter: lines })) {
    const lineOf = (path: FieldPath): number => lineIn(document, path, lines)
    const problem = (path: FieldPath, message: string, severity: FileProblem['severity']): void => {
      problems.push({ file, line: lineOf(path), severity, message })
    }
    const [broken] = document.errors
    if (broken !== undefined) {
      const line = lines.linePos(broken.pos[0]).line
      const message = (broken.message.split('\n')[0] as string).replace(/ at line \d+.*$/, '')
      problems.push({ file, line, severity: 'error', message: `not valid YAML: ${message}` })
      continue
    }
    const value = toValue(document)
    if (value instanceof Error) {
      problem([], `not valid YAML: ${value.message}`, 'error')
    } else if (value !== null && value !== undefined) {
      const opened = isTierMapping(value) ? openTiers(value as object) : value
      if (opened instanceof Error) {
        problem(['data', 'tiers'], `${named(value)}data.tiers ${opened.message}`, 'error')
        continue
      }
      const result = parseResource(opened)
      if ('resource' in result) resources.push({ resource: result.resource, file, lineOf })
      else if ('ignored' in result) {
        if (result.ignored !== undefined) problem([], result.ignored, 'warning')
      } else {
        for (const { path, message } of result.problems) {
          problem(path, `${named(value)}${showPath(path)} ${message}`.trim(), 'error')
        }
      }
    }
  }
  return { resources, problems }
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
