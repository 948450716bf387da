/** YAML text → resources and problems, each problem with its line. */

import {
  type Document,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parse,
  parseAllDocuments,
} from 'yaml'
import { resourceKey } from '../core/decision/snapshot.ts'
import { type FieldPath, showPath } from '../core/formats/fields.ts'
import type { Resource } from '../core/kinds/resources.ts'
import { parseResource } from '../core/resources/parse-resource.ts'
import { type Refused, toRefused } from '../core/resources/refused.ts'
import { isTierMapping } from '../core/resources/tiers.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { lineIn } from '../runtime/yaml-lines.ts'

/** A problem in a file. `severity` error: the document is not in force. */
export interface FileProblem {
  readonly file: string
  /** From 1; 0 if there are no lines, as in a cluster. */
  readonly line: number
  readonly severity: 'error' | 'warning'
  readonly message: string
}

/** A resource, and the lines of its fields. */
export interface WrittenResource {
  /** `<kind>/<namespace>/<name>`. */
  readonly key: string
  readonly resource: Resource
  readonly file: string
  /** From 1; for fields deeper than the third level, the line of their ancestor there. */
  lineOf(path: FieldPath): number
}

export interface FileContent {
  /** In the order of the file. */
  readonly documents: readonly PlacedDocument[]
  readonly resources: readonly WrittenResource[]
  readonly problems: readonly FileProblem[]
  readonly refused: readonly Refused[]
  /** The results for the texts between two `---`. */
  readonly parts: ReadonlyMap<string, readonly DocumentContent[]>
}

/** A document, and the number of lines in its file before its part. */
export interface PlacedDocument {
  readonly content: DocumentContent
  readonly linesBefore: number
}

/** A document independent of its position: lines count from the start of its part. */
export interface DocumentContent {
  readonly found: { readonly key: string; readonly resource: Resource } | undefined
  readonly problems: readonly Omit<FileProblem, 'file'>[]
  readonly refused?: Refused | undefined
  readonly lines: Lines
}

/** The line of a node, and those of its fields or items. */
interface Lines {
  readonly line: number
  readonly inside: ReadonlyMap<unknown, Lines> | undefined
}

/** The most nodes that an alias may expand to; more is an attack, not a resource. */
const aliasLimit = 100
const yamlOptions = { maxAliasCount: aliasLimit, logLevel: 'error' } as const
/** Lines of fields deeper than this are not kept. */
const linesDepth = 3

/** Texts up to this many characters are parsed within a slice: some 15 ms of work. */
const longText = 32_768

/** Parses long texts in another thread. */
export type ReadElsewhere = (text: string) => Promise<readonly DocumentContent[]>

/**
 * Reads all documents of one file, one per step; a promise that it yields must be awaited, and its
 * value passed to the next step. Never throws: a broken document does not affect the others.
 * Unchanged parts of `before` are not parsed again: their contents are the same objects.
 */
export function* readInSteps(
  file: string,
  text: string,
  before?: FileContent,
  elsewhere?: ReadElsewhere,
): Generator<unknown, FileContent> {
  const parts = new Map<string, readonly DocumentContent[]>()
  const documents: PlacedDocument[] = []
  for (const { text: part, linesBefore } of splitDocuments(text)) {
    let contents = parts.get(part) ?? before?.parts.get(part)
    if (contents === undefined && elsewhere !== undefined && part.length > longText) {
      contents = (yield elsewhere(part).catch(unread)) as typeof contents
    }
    contents ??= readPart(part)
    parts.set(part, contents)
    for (const content of contents) documents.push({ content, linesBefore })
    yield
  }
  return toFileContent(file, documents, parts)
}

function unread(error: unknown): readonly DocumentContent[] {
  const message = `cannot be read: ${errorMessage(error)}`
  const problems = [{ line: 1, severity: 'error', message }] as const
  return [{ found: undefined, problems, lines: { line: 1, inside: undefined } }]
}

/** The content of a file with these documents. */
export function toFileContent(
  file: string,
  documents: readonly PlacedDocument[],
  parts: FileContent['parts'],
): FileContent {
  return {
    documents,
    parts,
    resources: documents.flatMap(({ content: { found, lines }, linesBefore }) =>
      found === undefined
        ? []
        : { ...found, file, lineOf: (path) => linesBefore + lineAt(lines, path) },
    ),
    refused: documents.flatMap(({ content }) => content.refused ?? []),
    problems: documents.flatMap(({ content, linesBefore }) =>
      content.problems.map((problem) => ({ ...problem, file, line: linesBefore + problem.line })),
    ),
  }
}

/** Reads the text between two `---`. */
export function readPart(text: string): readonly DocumentContent[] {
  const lines = new LineCounter()
  return [...parseAllDocuments(text, { lineCounter: lines })].map((document) => {
    const [broken] = document.errors
    if (broken !== undefined) {
      const { line } = lines.linePos(broken.pos[0])
      const message = (broken.message.split('\n')[0] as string).replace(/ at line \d+.*$/, '')
      return {
        found: undefined,
        problems: [{ line, severity: 'error', message: `not valid YAML: ${message}` }],
        lines: { line, inside: undefined },
      }
    }
    const { resource, problems, refused } = readDocument(document)
    return {
      refused,
      found: resource && { key: resourceKey(resource), resource },
      problems: problems.map(({ path, severity, message }) => ({
        line: lineIn(document, path, lines),
        severity,
        message,
      })),
      lines: linesOf(document.contents, lineIn(document, [], lines), lines, linesDepth),
    }
  })
}

export interface DocumentProblem extends Pick<FileProblem, 'severity' | 'message'> {
  readonly path: FieldPath
}

/** The result for a document: empty if it is not ours. */
export interface Reading {
  readonly resource?: Resource
  readonly problems: readonly DocumentProblem[]
  /** Documents about models that are not in force because of their problems. */
  readonly refused?: Refused | undefined
}

function readDocument(document: Document): Reading {
  const value = toValue(document)
  if (value instanceof Error) return error([], `not valid YAML: ${value.message}`)
  if (value === null || value === undefined) return { problems: [] }
  return readObject(value)
}

function error(path: FieldPath, message: string): Reading {
  return { problems: [{ path, severity: 'error', message }] }
}

/** Reads a document that has been parsed to plain values. */
export function readObject(value: unknown): Reading {
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
  const sentences = result.problems.map(({ path, message }) =>
    `${showPath(path)} ${message}`.trim(),
  )
  return {
    refused: toRefused(value, sentences.join('; ')),
    problems: result.problems.map(({ path }, index) => ({
      path,
      severity: 'error',
      message: `${named(value)}${sentences[index]}`,
    })),
  }
}

/**
 * Splits the text before each `---` at the start of a line: a document begins there, wherever it is
 * (YAML 1.2.2, 9.1.2), and an unclosed quote cannot affect later documents. Directives stay with
 * their document.
 */
function* splitDocuments(text: string): Generator<{ text: string; linesBefore: number }> {
  let start = 0
  let linesBefore = 0
  for (const { index } of text.matchAll(/^---(?=\s|$)/gm)) {
    const before = text.slice(start, index)
    // Only whitespace, comments and directives.
    if (!/^[^\S\n]*[^\s%#]/m.test(before)) continue
    yield { text: before, linesBefore }
    linesBefore += before.split('\n').length - 1
    start = index
  }
  yield { text: text.slice(start), linesBefore }
}

function toValue(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: aliasLimit })
  } catch (error) {
    return error
  }
}

/** A ConfigMap contains text; here the text of `data.tiers` is YAML itself. */
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

/** `Subscription team-a: ` if the document has a kind and name. */
function named(value: unknown): string {
  if (typeof value !== 'object' || value === null) return ''
  const { kind, metadata } = value as { kind?: unknown; metadata?: { name?: unknown } | null }
  if (typeof kind !== 'string') return ''
  const name = metadata?.name
  return typeof name === 'string' ? `${kind} ${name}: ` : `${kind}: `
}

/** The lines of a node and its content, to this depth. */
function linesOf(node: unknown, line: number, counter: LineCounter, depth: number): Lines {
  if (depth === 0 || !(isMap(node) || isSeq(node))) return { line, inside: undefined }
  const inside = new Map<unknown, Lines>()
  const add = (name: unknown, value: unknown): void => {
    if (!isNode(value) || !value.range) return
    inside.set(name, linesOf(value, counter.linePos(value.range[0]).line, counter, depth - 1))
  }
  if (isSeq(node)) for (const [index, item] of node.items.entries()) add(index, item)
  else for (const { key, value } of node.items) if (isScalar(key)) add(key.value, value)
  return { line, inside }
}

/** The line of a field, or of its nearest existing ancestor. */
function lineAt(lines: Lines, path: FieldPath): number {
  let at = lines
  for (const step of path) {
    const next = at.inside?.get(step)
    if (next === undefined) break
    at = next
  }
  return at.line
}
