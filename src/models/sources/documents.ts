/** YAML text → resources and problems, each problem with its line. */

import { copyText } from '../../formats/bounded-text.ts'
import {
  type FieldPath,
  formatPath,
  isObject,
  type JsonObject,
  valueAt,
} from '../../formats/fields.ts'
import { nearestName } from '../../formats/nearest-name.ts'
import type { Resource } from '../../kinds/resources.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import { defaultTenant } from '../rules/compile.ts'
import { acceptedKindNames, isKindName } from '../rules/original/original-kinds.ts'
import { isTierMapping } from '../rules/original/tiers.ts'
import { containsLimits, isLimitPath } from '../rules/reading/limit-fields.ts'
import { listedObjects } from '../rules/reading/listed-objects.ts'
import { parseResource } from '../rules/reading/parse-resource.ts'
import {
  type RefusedResource,
  toRefusedResource,
  unparsedResourceKey,
} from '../rules/refused-resources.ts'
import { resourceKey } from '../rules/snapshot.ts'
import { unreadableTenant } from './unreadable-tenant.ts'
import { type Lines, parseYaml, type YamlDocument } from './yaml-documents.ts'

/** A problem in a file. `severity` error: the document is not in force. */
export interface FileProblem {
  readonly file: string
  /** From 1; 0 if there are no lines, as in a cluster. */
  readonly line: number
  readonly severity: 'error' | 'warning'
  readonly message: string
  /** `<kind>/<namespace>/<name>` of the document, if it is not in force. */
  readonly unread?: string
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
  readonly refused: readonly RefusedResource[]
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
  readonly refused?: RefusedResource | undefined
  /** Whether it is not known which resource it is. */
  readonly isIllegible?: boolean
  readonly lines: Lines
}

/** Maximum number of problems that are reported for one document. */
const maxProblems = 20

/** Texts up to this many characters are parsed within a slice: some 15 ms of work. */
export const maxSliceText = 32_768
/** Whether parsing may take longer: each alias is compared with all anchors and aliases before it. */
const isLong = (text: string) =>
  text.length > maxSliceText || text.split('*').length * text.split(/[&*]/).length > 1_000_000

export interface FileText {
  /** Where `isUtf8` is not true, bytes that are not UTF-8 became U+FFFD. */
  readonly text: string
  readonly isUtf8: boolean
}

/** Parses texts in another thread. */
type ReadElsewhere = (text: string) => Promise<readonly DocumentContent[]>

/**
 * Reads all documents of one file, one per step; a promise that it yields must be awaited, and its
 * value passed to the next step. Never throws: a broken document does not affect the others.
 * Unchanged parts of `before` are not parsed again: their contents are the same objects.
 */
export function* parseFileInSteps(
  file: string,
  { text, isUtf8 }: FileText,
  before?: FileContent,
  elsewhere?: ReadElsewhere,
): Generator<unknown, FileContent> {
  const parts = new Map<string, readonly DocumentContent[]>()
  const documents: PlacedDocument[] = []
  for (const { text: part, linesBefore } of splitDocuments(text)) {
    const wrong = isUtf8 ? -1 : part.indexOf('\ufffd')
    if (wrong >= 0) {
      const line = part.slice(0, wrong).split('\n').length
      const content = broken(part, line, 'is not UTF-8: save the file in that encoding')
      documents.push({ content, linesBefore })
      continue
    }
    let contents = parts.get(part) ?? before?.parts.get(part)
    if (contents === undefined && elsewhere !== undefined && isLong(part)) {
      contents = (yield elsewhere(part).catch((error) => [
        broken(part, 1, `cannot be read: ${errorMessage(error)}`),
      ])) as typeof contents
    }
    // A copy, because the contents have slices of it: one of a document that stays would retain the text of a whole file.
    contents ??= parsePart(copyText(part))
    parts.set(part, contents)
    for (const content of contents) documents.push({ content, linesBefore })
    yield
  }
  return toFileContent(file, documents, parts)
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
export function parsePart(text: string): readonly DocumentContent[] {
  return parseYaml(text).flatMap((document) => {
    const { value, problem } = document
    if (problem !== undefined) {
      return broken(text, problem.line, `not valid YAML: ${problem.message}`)
    }
    return listedObjects(value).map(({ object, path }) => {
      const content = read(document, object, path)
      const [problem] = content.found === undefined && !hasKind(object) ? content.problems : []
      return problem === undefined ? content : broken(text, problem.line, problem.message)
    })
  })
}

/** Whether it says legibly what it is, and not that it is a list, of which the items would have been read. */
function hasKind(object: unknown): boolean {
  const [group, kind] = [valueAt(object, ['apiVersion']), valueAt(object, ['kind'])]
  return typeof kind === 'string' && !ourList.test(`${group} ${kind}`)
}

const ourList = /^(v1|undefined|null|tollgate\S*|maas\S*) .*list/i

/**
 * The content of a document that is broken, or of no kind. If it may have the Tenant's limits, it counts as a Tenant
 * whose limits cannot be read.
 */
function broken(text: string, line: number, message: string): DocumentContent {
  // In UTF-16 read as UTF-8, ASCII characters are separated by NUL, after a byte-order mark.
  const legible = text.replace(/[\0\ufffd]/g, '')
  const isTenant = limitedTenant.every((part) => part.test(legible))
  return unreadableDocument(line, message, isTenant)
}

/** The content of a document that cannot be read, as a Tenant whose limits cannot be read if it `isTenant`. */
export function unreadableDocument(
  line: number,
  message: string,
  isTenant: boolean,
): DocumentContent {
  const found = isTenant
    ? { key: resourceKey(unreadableTenant), resource: unreadableTenant }
    : undefined
  const problems = [{ line, severity: 'error', message }] as const
  return { found, problems, isIllegible: true, lines: { line, inside: undefined } }
}

const limitedTenant = [
  /(^|[\s{,"'])kind["']?\s*:\s*([!&]\S*\s+)*["']?(Tenant|MaasTenantConfig)\b/i,
  /(^|[\s{,"'])(limits|calendar)["']?\s*:/i,
]

/** One object of a document, at a path in it. */
function read(document: YamlDocument, object: unknown, path: FieldPath): DocumentContent {
  const { resource, problems, refused } =
    object === null || object === undefined ? nothing : parseObjectResource(object)
  return {
    refused,
    found: resource && { key: resourceKey(resource), resource },
    problems: problems.map(({ path: inside, ...problem }) => ({
      line: document.lineOf([...path, ...inside]),
      ...problem,
    })),
    lines: document.linesOf(path),
  }
}

interface DocumentProblem extends Omit<FileProblem, 'file' | 'line'> {
  readonly path: FieldPath
}

/** The result for a document: empty if it is not ours. */
interface Reading {
  readonly resource?: Resource
  readonly problems: readonly DocumentProblem[]
  /** Documents about models that are not in force because of their problems. */
  readonly refused?: RefusedResource | undefined
}

const nothing: Reading = { problems: [] }

function error(path: FieldPath, message: string): Reading {
  return { problems: [{ path, severity: 'error', message }] }
}

/**
 * Reads a document that has been parsed to plain values. Never throws: an object in the cluster that breaks its reader
 * must not prevent reading the others.
 */
export function parseObjectResource(value: unknown): Reading {
  try {
    return readParsed(value)
  } catch (fault) {
    const sentence = `cannot be read: ${errorMessage(fault)}`
    const { problems } = error([], `${named(value)}${sentence}`)
    const isLimited = isOfKind(value, 'Tenant') && isLimitPath(Object.keys(value.spec ?? {}))
    if (isLimited) return { resource: unreadableTenant, problems }
    return notInForce(value, sentence, problems)
  }
}

/** A document that is not in force, and what refers to it. */
function notInForce(
  value: unknown,
  sentence: string,
  problems: readonly DocumentProblem[],
): Reading {
  const refused = toRefusedResource(value, sentence)
  const unread = unparsedResourceKey(value)
  if (unread === undefined) return { refused, problems }
  return { refused, problems: problems.map((problem) => ({ ...problem, unread })) }
}

function readParsed(value: unknown): Reading {
  const opened = isTierMapping(value) ? openTiers(value as object) : value
  if (opened instanceof Error) {
    return error(['data', 'tiers'], `${named(value)}data.tiers ${opened.message}`)
  }
  const result = parseResource(opened)
  if ('ignored' in result) {
    if (result.ignored === undefined) return nothing
    return { problems: [{ path: [], severity: 'warning', message: result.ignored }] }
  }
  const worstFirst = result.problems.toSorted((a, b) => Number(!!a.isMild) - Number(!!b.isMild))
  const found = worstFirst.slice(0, maxProblems).map(({ path, message, isMild }) => ({
    path,
    severity: isMild ? ('warning' as const) : ('error' as const),
    sentence:
      `${formatPath(path)}${nameOfLimit(opened, path)} ${message}${besideLimits(opened, path)}`.trim(),
  }))
  const more = result.problems.length - found.length
  if (more > 0) found.push({ path: [], severity: 'warning', sentence: `has ${more} more problems` })
  if (!('resource' in result) && hasLimits(opened, 'Tenant') && !isTenantByMistake(opened)) {
    const sentence =
      'spec.limits hold for nobody: they are ignored, because this is not the Tenant resource'
    found.push({ path: ['spec', 'limits'], severity: 'error', sentence })
  }
  const resource = 'resource' in result ? result.resource : undefined
  const subject = resource === undefined ? named(value) : problemPrefix(resourceKey(resource))
  const problems = found.map(({ path, severity, sentence }) => {
    return { path, severity, message: `${subject}${sentence}` }
  })
  if (resource !== undefined) return { resource, problems }
  if (isTenantByMistake(opened)) return { resource: unreadableTenant, problems }
  return notInForce(value, found.map(({ sentence }) => sentence).join('; '), problems)
}

/**
 * Splits the text before each `---` at the start of a line: a document begins there, wherever it is (YAML 1.2.2,
 * 9.1.2), and an unclosed quote cannot affect later documents. Directives stay with their document.
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

/** A ConfigMap contains text; here the text of `data.tiers` is YAML itself. */
function openTiers(mapping: { readonly data?: unknown }): unknown {
  const { data } = mapping
  if (typeof data !== 'object' || data === null || !('tiers' in data)) return mapping
  if (typeof data.tiers !== 'string') return new Error('must be a text, written as a block after |')
  // Parsing a hostile text takes memory and seconds for each 100 KB.
  if (data.tiers.length > maxSliceText)
    return new Error(`must have at most ${maxSliceText} characters`)
  const [document, second] = parseYaml(data.tiers)
  const isValid = document?.problem === undefined && second === undefined
  if (!isValid) return new Error('is not valid YAML')
  return { ...mapping, data: { ...data, tiers: document?.value } }
}

/** ` (limit daily)`: a place in a list is hard to find. */
function nameOfLimit(document: unknown, [, list, index = '']: FieldPath): string {
  const name = list === 'limits' ? valueAt(document, ['spec', list, index, 'name']) : undefined
  return typeof name === 'string' && name !== '' ? ` (limit ${name.slice(0, 63)})` : ''
}

/** Whether it has the Tenant's name and limits, but a wrong kind or version. */
function isTenantByMistake(document: unknown): boolean {
  if (!isObject(document) || !isObject(document.metadata)) return false
  const { name, namespace = defaultTenant.metadata.namespace } = document.metadata
  const isNamed =
    name === defaultTenant.metadata.name && namespace === defaultTenant.metadata.namespace
  const meant = nearestName(`${document.kind}`, acceptedKindNames('Tenant'))
  return isNamed && meant !== undefined && containsLimits({ ...document, metadata: undefined })
}

function isOfKind(document: unknown, kind: 'Subscription' | 'Tenant'): document is JsonObject {
  return isObject(document) && isKindName(kind, document.kind)
}

function hasLimits(document: unknown, kind: 'Subscription' | 'Tenant'): boolean {
  const limits = valueAt(document, ['spec', 'limits'])
  return isOfKind(document, kind) && Array.isArray(limits) && limits.length > 0
}

/** How to write that only limits by name apply. */
function besideLimits(document: unknown, path: FieldPath): string {
  const isMeant = path.length === 4 && path[3] === 'tokenRateLimits'
  if (!isMeant || !hasLimits(document, 'Subscription')) return ''
  return ' even if spec.limits has limits; for practically no limit write [{ limit: 1000000000, window: 1h }]'
}

/** `Subscription team-a: ` of the resource's key, as of a document that is not read. */
export function problemPrefix(key: string): string {
  const [kind, , name] = key.split('/')
  return `${kind} ${name}: `
}

/** `Subscription team-a: ` if the document has a kind and name. */
function named(value: unknown): string {
  const kind = valueAt(value, ['kind'])
  if (typeof kind !== 'string') return ''
  const name = valueAt(value, ['metadata', 'name'])
  return typeof name === 'string' ? `${kind} ${name}: ` : `${kind}: `
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
