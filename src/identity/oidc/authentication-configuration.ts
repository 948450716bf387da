/**
 * Several OIDC providers in kube-apiserver's own format (`--authentication-config`): an
 * AuthenticationConfiguration of `apiserver.config.k8s.io`. One file may serve both.
 */

import { X509Certificate } from 'node:crypto'
import { LineCounter, parseDocument } from 'yaml'
import { type FieldPath, type FieldProblem, formatPath, readFields } from '../../formats/fields.ts'
import {
  list,
  object,
  optional,
  type Schema,
  text,
  type ValueOf,
  withDefault,
} from '../../formats/schema.ts'
import { isTrustworthy } from '../../formats/trustworthy.ts'
import { pruneToSchema } from '../../models/rules/reading/prune.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import { lineOfPath } from '../../runtime/yaml-lines.ts'
import type { ClaimRules } from './claims.ts'

/** A provider in the file. */
export interface WrittenProvider {
  readonly issuer: string
  /** The URL of its discovery document, if not below the issuer. */
  readonly discoveryUrl: string | undefined
  /** The authorities for its certificate (PEM), if they differ from the default of all providers. */
  readonly ca: string | undefined
  readonly audiences: readonly string[]
  readonly claims: ClaimRules
}

interface AuthenticationConfiguration {
  readonly providers: readonly WrittenProvider[]
  /** `line 7: …`: errors for kube-apiserver too. The file is not used. */
  readonly broken: readonly string[]
  /**
   * `line 7: …`: valid for kube-apiserver and not supported here. Such a provider is not in
   * `providers`.
   */
  readonly leftOut: readonly string[]
}

const some = text({ minLength: 1 })
/** The prefix is required, even if empty, so that it is not omitted by accident. */
const mapping = object({ claim: some, prefix: text() })
const url = text({
  rules: [
    {
      message: 'must be an https URL without query and fragment',
      holds: (raw: string) => isTrustworthy(raw) && !/[?#]/.test(raw),
    },
  ],
})
const certificate = text({
  maxLength: 1_048_576,
  rules: [{ message: 'must be a certificate in PEM', holds: isCertificate }],
})
const provider = object({
  issuer: withDefault(
    object({
      url,
      discoveryURL: optional(some),
      certificateAuthority: optional(certificate),
      audiences: list(some, { minItems: 1, item: 'audience' }),
      audienceMatchPolicy: optional(text({ enum: ['', 'MatchAny'] })),
    }),
    {},
  ),
  claimValidationRules: list(object({ claim: some, requiredValue: withDefault(text(), '') })),
  claimMappings: withDefault(
    object({ username: withDefault(mapping, {}), groups: optional(mapping) }),
    {},
  ),
})
/** A provider with unsupported fields, which is skipped. */
const foreign = object({ issuer: withDefault(object({ url }), {}) })
const versions = ['v1', 'v1beta1'].map((each) => `apiserver.config.k8s.io/${each}`)
/** The supported fields, except the providers' fields. */
const head = object({
  apiVersion: text({ enum: versions }),
  kind: text({ enum: ['AuthenticationConfiguration'] }),
  jwt: list({ type: 'object' }),
})

/** Parses the file's text. `issuers` are those already in use. Never throws. */
export function parseAuthenticationConfiguration(
  text: string,
  issuers: readonly string[] = [],
): AuthenticationConfiguration {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, logLevel: 'error' })
  const plain = toPlain(document)
  if (typeof plain === 'string') return { providers: [], broken: [plain], leftOut: [] }
  const [problems, strange]: [FieldProblem[], FieldProblem[]] = [[], []]
  const show = ({ path, message }: FieldProblem): string =>
    `line ${lineOfPath(document, path, lines)}: ${formatPath(path)} ${message}`.replace('  ', ' ')

  const root = readFields(plain.value, head, problems)
  for (const path of unknownFields(plain.value, head, [])) {
    strange.push({ path, message: 'is not supported' })
  }

  const seen = new Set(issuers)
  const providers = (root?.jwt ?? []).flatMap((jwt, index) => {
    if (jwt === undefined) return []
    const at = ['jwt', index]
    const others = unknownFields(jwt, provider, at)
    for (const path of others) {
      strange.push({ path, message: 'is not supported, so this provider is left out' })
    }
    const before = problems.length
    const read = others.length > 0 ? undefined : readFields(jwt, provider, problems, at)
    const { issuer } = read ?? readFields(jwt, foreign, problems, at)
    if (problems.length > before) return []
    const problem = (field: string, message: string): void =>
      void problems.push({ path: [...at, 'issuer', field], message })
    if (seen.has(issuer.url)) problem('url', 'names an issuer that another provider has')
    seen.add(issuer.url)
    if (read === undefined) return []
    const { discoveryURL } = read.issuer
    const isSafe = discoveryURL?.startsWith('https:') || issuer.url.startsWith('http:')
    if (discoveryURL !== undefined && !(isSafe && isTrustworthy(discoveryURL))) {
      problem('discoveryURL', 'must be an https URL')
    }
    return [toProvider(read)]
  })
  return { providers, broken: problems.map(show), leftOut: strange.map(show) }
}

/** The document as plain values, or why it is invalid. */
function toPlain(document: ReturnType<typeof parseDocument>): { readonly value: unknown } | string {
  const [error] = document.errors
  if (error !== undefined) {
    const { linePos, message } = error
    return `line ${linePos?.[0].line ?? 1}: ${message.split('\n', 1)[0]?.replace(/ at line .*/, '')}`
  }
  try {
    return { value: document.toJS({ maxAliasCount: 100 }) }
  } catch (thrown) {
    return `line 1: ${errorMessage(thrown)}`
  }
}

/** Unsupported fields; empty ones are ignored. */
function unknownFields(value: unknown, known: Schema, path: FieldPath): readonly FieldPath[] {
  const found: FieldPath[] = []
  pruneToSchema(value, known, (at, left) => void (isEmpty(left) || found.push(at)), path)
  return found
}

function isEmpty(value: unknown): boolean {
  return value === null || value === '' || (Array.isArray(value) && value.length === 0)
}

function toProvider({ issuer, claimMappings, claimValidationRules }: ValueOf<typeof provider>) {
  const { username, groups } = claimMappings
  return {
    issuer: issuer.url,
    discoveryUrl: issuer.discoveryURL,
    ca: issuer.certificateAuthority || undefined,
    audiences: issuer.audiences,
    claims: {
      username: username.claim,
      groups: groups?.claim,
      usernamePrefix: username.prefix,
      groupsPrefix: groups?.prefix ?? '',
      required: claimValidationRules.map(({ claim, requiredValue: value }) => ({ claim, value })),
    },
  }
}

function isCertificate(pem: string): boolean {
  try {
    return pem === '' || new X509Certificate(pem).serialNumber !== ''
  } catch {
    return false
  }
}
