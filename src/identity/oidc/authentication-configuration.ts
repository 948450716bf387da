/**
 * Several OIDC providers in kube-apiserver's own format (`--authentication-config`): an
 * AuthenticationConfiguration of `apiserver.config.k8s.io`. One file may serve both.
 */

import { X509Certificate } from 'node:crypto'
import { LineCounter, parseDocument } from 'yaml'
import {
  type Field,
  type FieldPath,
  type FieldProblem,
  readField,
  showPath,
} from '../../core/formats/fields.ts'
import { list, object, type Schema, text } from '../../core/formats/schema.ts'
import { isTrustworthy } from '../../core/formats/trustworthy.ts'
import { prune } from '../../core/resources/prune.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import { lineIn } from '../../runtime/yaml-lines.ts'
import type { ClaimRules } from './claims.ts'

/** A provider in the file. */
export interface WrittenProvider {
  readonly issuer: string
  /** The URL of its discovery document, if not below the issuer. */
  readonly discoveryUrl: string | undefined
  /** The authorities for its certificate (PEM), if not those of all providers. */
  readonly ca: string | undefined
  readonly audiences: readonly string[]
  readonly claims: ClaimRules
}

export interface AuthenticationConfiguration {
  readonly providers: readonly WrittenProvider[]
  /** `line 7: …`: errors for kube-apiserver too. The file is not used. */
  readonly broken: readonly string[]
  /**
   * `line 7: …`: valid for kube-apiserver and not supported here. Such a provider is not in
   * `providers`.
   */
  readonly leftOut: readonly string[]
}

const filled = text({ minLength: 1 })
const mapping = object({ claim: filled, prefix: text() })
const provider = object({
  issuer: object({
    url: text(),
    discoveryURL: filled,
    certificateAuthority: text(),
    audiences: list(filled, { minItems: 1, item: 'audience' }),
    audienceMatchPolicy: text({ enum: ['', 'MatchAny'] }),
  }),
  claimValidationRules: list(object({ claim: filled, requiredValue: text() })),
  claimMappings: object({ username: mapping, groups: mapping }),
})
const versions = ['v1', 'v1beta1'].map((each) => `apiserver.config.k8s.io/${each}`)
/** The supported fields. */
const configuration = object({
  apiVersion: text({ enum: versions }),
  kind: text({ enum: ['AuthenticationConfiguration'] }),
  jwt: list(provider),
})
/** The same without the providers' fields. */
const head = object({ ...configuration.properties, jwt: { type: 'array' } })

/** Parses the file's text. `issuers` are those already in use. Never throws. */
export function parseAuthenticationConfiguration(
  text: string,
  issuers: readonly string[] = [],
): AuthenticationConfiguration {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, logLevel: 'error' })
  const written = toPlain(document)
  if (typeof written === 'string') return { providers: [], broken: [written], leftOut: [] }
  const [problems, strange]: [FieldProblem[], FieldProblem[]] = [[], []]
  const show = ({ path, message }: FieldProblem): string =>
    `line ${lineIn(document, path, lines)}: ${showPath(path)} ${message}`.replace('  ', ' ')

  const root = readField(written.value, problems, configuration)
  readKind(root)
  for (const path of strangers(written.value, head, [])) {
    strange.push({ path, message: 'is not taken' })
  }

  const seen = new Set(issuers)
  const providers = root
    .at('jwt')
    .list()
    .flatMap((jwt, index) => {
      const issuer = readIssuer(jwt.at('issuer').at('url'))
      if (issuer !== undefined && seen.has(issuer)) {
        jwt.at('issuer').at('url').problem('names an issuer that another provider has')
      }
      if (issuer !== undefined) seen.add(issuer)
      const value = (written.value as { jwt: readonly unknown[] }).jwt[index]
      const foreign = strangers(value, provider, ['jwt', index])
      for (const path of foreign) {
        strange.push({ path, message: 'is not taken, so this provider is left out' })
      }
      return foreign.length > 0 ? [] : [readProvider(jwt, issuer ?? '')]
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

function readKind(root: Field): void {
  if (!root.object()) return
  root.at('apiVersion').requiredString()
  root.at('kind').requiredString()
}

/** Unsupported fields; empty ones are ignored. */
function strangers(value: unknown, known: Schema, path: FieldPath): readonly FieldPath[] {
  const found: FieldPath[] = []
  prune(value, known, (at, left) => void (isEmpty(left) || found.push(at)), path)
  return found
}

function isEmpty(value: unknown): boolean {
  return value === null || value === '' || (Array.isArray(value) && value.length === 0)
}

function readIssuer(url: Field): string | undefined {
  const written = url.requiredString()
  if (written === '') return undefined
  if (isTrustworthy(written) && !/[?#]/.test(written)) return written
  url.problem('must be an https URL without query and fragment')
  return undefined
}

function readProvider(jwt: Field, issuer: string): WrittenProvider {
  const about = jwt.at('issuer')
  const discoveryUrl = about.at('discoveryURL').string()
  const isSafe = discoveryUrl?.startsWith('https:') || issuer.startsWith('http:')
  if (discoveryUrl !== undefined && !(isSafe && isTrustworthy(discoveryUrl))) {
    about.at('discoveryURL').problem('must be an https URL')
  }
  const audiences = about.at('audiences').list()
  about.at('audienceMatchPolicy').string()
  const mappings = jwt.at('claimMappings')
  const username = readMapping(mappings.at('username'))
  const groups = mappings.at('groups').present ? readMapping(mappings.at('groups')) : undefined
  return {
    issuer,
    discoveryUrl,
    ca: readAuthority(about.at('certificateAuthority')),
    audiences: audiences.map((each) => each.requiredString()),
    claims: {
      username: username.claim,
      groups: groups?.claim,
      usernamePrefix: username.prefix,
      groupsPrefix: groups?.prefix ?? '',
      required: jwt
        .at('claimValidationRules')
        .list()
        .map((rule) => ({
          claim: rule.at('claim').requiredString(),
          value: rule.at('requiredValue').string() ?? '',
        })),
    },
  }
}

/** The prefix is required, even if empty, so that nobody omits it by accident. */
function readMapping(mapping: Field): { readonly claim: string; readonly prefix: string } {
  return {
    claim: mapping.at('claim').requiredString(),
    prefix: mapping.at('prefix').requiredString(),
  }
}

function readAuthority(authority: Field): string | undefined {
  const pem = authority.string()
  if (!pem) return undefined
  try {
    new X509Certificate(pem)
    return pem
  } catch {
    authority.problem('must be a certificate in PEM')
    return undefined
  }
}
