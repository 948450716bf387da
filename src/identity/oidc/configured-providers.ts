/** OIDC providers: from the settings, from a file, and from the Tenant. */

import type { ExternalOidc } from '../../kinds/resources.ts'
import type { ProcessContext } from '../../settings/context.ts'
import type { VerifyCredential } from '../authenticate.ts'
import { followFile } from '../followed-file.ts'
import type { RefusalLog } from '../refusal-log.ts'
import {
  parseAuthenticationConfiguration,
  type WrittenProvider,
} from './authentication-configuration.ts'
import { type CodeFlow, createCodeFlow } from './code-flow.ts'
import { createDocumentReader } from './documents.ts'
import { createKeySource } from './key-source.ts'
import { createProvider, type Provider, type SharedPrefixes } from './provider.ts'

interface Configured extends WrittenProvider {
  /** See createProvider. */
  readonly shared?: SharedPrefixes
  readonly ttlMs?: number
}

/** A provider in force. */
interface OpenProvider {
  /** Its configuration, as text. */
  readonly text: string
  readonly provider: Provider
  /** How users sign in there. */
  readonly codeFlow: CodeFlow
}

/** `tenant` returns the Tenant's current provider. */
export function openOidcProviders(
  context: ProcessContext,
  tenant: () => ExternalOidc | undefined,
  refusals: RefusalLog,
) {
  const { log, stops } = context
  /** By issuer: each in its last version. */
  let inForce: ReadonlyMap<string, OpenProvider> = new Map()
  const own = ownProvider(context)
  let ofFile: readonly Configured[] = []
  let followed: ExternalOidc | undefined

  /**
   * Replaces the providers in force. An unchanged one retains its keys and its cached tokens; if two have the same
   * issuer, the first is used.
   */
  function put(configured: readonly Configured[]): void {
    const next = new Map<string, OpenProvider>()
    for (const one of configured) {
      if (next.has(one.issuer)) continue
      const text = JSON.stringify(one)
      const before = inForce.get(one.issuer)
      const stays = before?.text === text
      next.set(one.issuer, stays ? before : { text, ...openProvider(one, context, refusals) })
    }
    for (const [issuer, open] of inForce) if (next.get(issuer) !== open) open.provider.close()
    inForce = next
  }

  function update(): void {
    const theirs = followed && tenantProvider(followed, context)
    const others = [...own, ...ofFile]
    if (theirs !== undefined && others.some(({ issuer }) => issuer === theirs.issuer)) {
      const { issuer } = theirs
      log.error(
        { code: 'oidc_issuer_conflict', issuer },
        'cannot use the OIDC provider of the Tenant: the settings name the same issuer',
      )
    }
    const checked = others.map((one) => checkPrefixes(one, others))
    // An editor of the Tenant chooses its issuer, so this provider may not take a prefix from the others.
    if (theirs !== undefined) checked.push(checkPrefixes(theirs, others))
    for (const { issuer, shared } of checked) {
      if (!shared?.users && !shared?.groups) continue
      log.warn(
        { code: 'oidc_prefix_shared', issuer, shared },
        'another OIDC provider can issue names with the prefix of this one',
      )
    }
    put(checked)
  }

  /** The resource may have changed since the last call. */
  function current(): typeof inForce {
    const configured = tenant()
    if (configured !== followed) {
      followed = configured
      update()
    }
    return inForce
  }

  update()
  const file = followProviders(context, (found) => {
    ofFile = found
    update()
  })
  stops.push(() => {
    file?.close()
    put([])
  })
  return {
    /** The verifier for this issuer, or undefined if it is not configured. */
    find: (issuer: string): VerifyCredential | undefined => current().get(issuer)?.provider.verify,
    codeFlows: (): readonly CodeFlow[] => [...current().values()].map(({ codeFlow }) => codeFlow),
    /** Whether a provider is unavailable. */
    isUnavailable: (): boolean =>
      [...current().values()].some(({ provider }) => provider.isUnavailable),
  }
}

function openProvider(
  configured: Configured,
  { config, log }: ProcessContext,
  refusals: RefusalLog,
): Omit<OpenProvider, 'text'> {
  const { issuer, discoveryUrl, ca, audiences, claims, shared, ttlMs } = configured
  const { oidcCaFile: caFile, oidcOutageGraceMs: graceMs } = config
  const readDocument = createDocumentReader({ ca, caFile })
  const keys = createKeySource({
    issuer,
    discoveryUrl,
    readDocument,
    graceMs,
    onUnavailable: (problem) =>
      problem === undefined
        ? log.info({ code: 'oidc_available', issuer }, 'OIDC provider available again')
        : log.error(
            { code: 'oidc_unavailable', issuer, problem },
            'cannot reach the OIDC provider',
          ),
  })
  const onRefused = (reason: string): void => refusals.note({ proof: 'oidc', issuer }, reason)
  // There is at least one.
  const [clientId] = audiences as [string]
  const { discovered } = keys
  return {
    provider: createProvider({ issuer, audiences, ttlMs, keys, claims, shared, onRefused }),
    codeFlow: createCodeFlow({ issuer, clientId, discovered, readDocument, onRefused }),
  }
}

/** The provider, with the prefixes that it shares with another of `all`. */
function checkPrefixes(one: Configured, all: readonly Configured[]): Configured {
  const others = all.filter(({ issuer }) => issuer !== one.issuer)
  const isShared = (prefixOf: (configured: Configured) => string): boolean =>
    others.some((other) => overlap(prefixOf(one), prefixOf(other)))
  const users = isShared(({ claims }) => claims.usernamePrefix)
  const groups = isShared(({ claims }) => claims.groupsPrefix)
  return { ...one, shared: { users, groups } }
}

/** Whether one name can begin with both prefixes. An empty prefix claims no name. */
function overlap(one: string, other: string): boolean {
  return one !== '' && other !== '' && (one.startsWith(other) || other.startsWith(one))
}

/** Calls `take` with the providers of the file, now and after each valid change. */
function followProviders(
  { config, log }: ProcessContext,
  take: (found: readonly Configured[]) => void,
): { close(): void } | undefined {
  const { oidcProvidersFile: path, oidcIssuerUrl } = config
  if (path === undefined) return undefined
  const issuers = oidcIssuerUrl === undefined ? [] : [oidcIssuerUrl]
  return followFile(
    path,
    (text) => {
      const { providers, broken, leftOut } = parseAuthenticationConfiguration(text, issuers)
      for (const problem of leftOut)
        log.warn(
          { code: 'oidc_provider_invalid', path, problem },
          'ignored an invalid provider in the file of OIDC providers',
        )
      if (broken.length === 0) return take(providers)
      log.error(
        { code: 'oidc_file_invalid', path, problems: broken },
        'cannot use the file of OIDC providers: the previous providers stay in force',
      )
    },
    () =>
      log.error(
        { code: 'oidc_file_unreadable', path },
        'cannot read the file of OIDC providers: the previous providers stay in force',
      ),
  )
}

/** The provider of the settings, if any. */
function ownProvider({ config }: ProcessContext): readonly Configured[] {
  const { oidcIssuerUrl: issuer, oidcClientIds = [] } = config
  if (issuer === undefined) return []
  return [{ ...defaultsOf(config), issuer, audiences: [...oidcClientIds] }]
}

function tenantProvider(
  { issuerUrl, clientId, ttlSeconds }: ExternalOidc,
  { config }: ProcessContext,
): Configured {
  const ttlMs = ttlSeconds * 1_000
  return { ...defaultsOf(config), issuer: issuerUrl, audiences: [clientId], ttlMs }
}

/** Options that providers outside of a file share. */
function defaultsOf(config: ProcessContext['config']) {
  return {
    discoveryUrl: undefined,
    ca: undefined,
    claims: {
      username: config.oidcUsernameClaim,
      groups: config.oidcGroupsClaim,
      usernamePrefix: config.oidcUsernamePrefix ?? '',
      groupsPrefix: config.oidcGroupsPrefix ?? '',
      required: [],
    },
  }
}
