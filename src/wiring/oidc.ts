/** OIDC providers: the settings' own, and the Tenant's as long as the resource names one. */

import type { ExternalOidc } from '../core/resources.ts'
import type { Verify } from '../identity/authenticate.ts'
import { createReadDocument } from '../identity/oidc/documents.ts'
import { createKeySource } from '../identity/oidc/key-source.ts'
import { createProvider, type Provider } from '../identity/oidc/provider.ts'
import type { Context } from './context.ts'

export interface Oidc {
  /** What verifies the tokens of this issuer; undefined: it is none of ours. */
  find(issuer: string): Verify | undefined
  /** Whether a provider is out of reach. */
  isAway(): boolean
}

interface Wanted {
  readonly issuer: string
  readonly audiences: readonly string[]
  readonly ttlMs: number
}

/** `tenant` tells what the Tenant says now. */
export function openOidc(context: Context, tenant: () => ExternalOidc | undefined): Oidc {
  const { config, log, stops } = context
  const readDocument = createReadDocument({ caFile: config.oidcCaFile })
  const refusals = createRefusalLog(context)

  function open({ issuer, audiences, ttlMs }: Wanted): Provider {
    const keys = createKeySource({
      issuer,
      readDocument,
      graceMs: config.oidcOutageGraceMs,
      onAway: (problem) =>
        problem === undefined
          ? log.info({ issuer }, 'the OIDC provider is back')
          : log.error({ issuer, problem }, 'the OIDC provider is out of reach'),
    })
    return createProvider({
      issuer,
      audiences,
      ttlMs,
      keys,
      algorithms: config.oidcAlgorithms,
      claims: {
        username: config.oidcUsernameClaim,
        groups: config.oidcGroupsClaim,
        usernamePrefix: config.oidcUsernamePrefix ?? '',
        groupsPrefix: config.oidcGroupsPrefix ?? '',
      },
      onRefused: (reason) => refusals.note(issuer, reason),
    })
  }

  const own =
    config.oidcIssuerUrl === undefined
      ? undefined
      : open({
          issuer: config.oidcIssuerUrl,
          audiences: [...(config.oidcClientIds ?? [])],
          ttlMs: config.oidcCacheTtlMs,
        })
  let followed: { readonly written: string; readonly provider: Provider | undefined } | undefined

  /** The Tenant's provider as the resource has it now; its verdicts go with its settings. */
  function ofTenant(): Provider | undefined {
    const wanted = tenant()
    const written = JSON.stringify(wanted ?? null)
    if (followed?.written === written) return followed.provider
    followed?.provider?.close()
    const isDouble = wanted !== undefined && wanted.issuerUrl === own?.issuer
    if (isDouble) log.error('the Tenant names the issuer of OIDC_ISSUER_URL, whose settings hold')
    const provider =
      wanted === undefined || isDouble
        ? undefined
        : open({
            issuer: wanted.issuerUrl,
            audiences: [wanted.clientId],
            ttlMs: wanted.ttlSeconds * 1_000,
          })
    followed = { written, provider }
    return provider
  }

  stops.push(() => {
    own?.close()
    followed?.provider?.close()
  })
  return {
    find(issuer) {
      const provider = own?.issuer === issuer ? own : ofTenant()
      return provider?.issuer === issuer ? provider.verify : undefined
    },
    isAway: () => own?.isAway === true || ofTenant()?.isAway === true,
  }
}

/** Milliseconds in which one reason is one line, however many tokens are refused for it. */
const oneLineMs = 10_000

/** A line for each reason that tokens of an issuer are refused; it holds nothing of any token. */
function createRefusalLog({ log, clock }: Context) {
  const lines = new Map<string, { at: number; unlogged: number }>()
  return {
    note(issuer: string, reason: string): void {
      const key = `${issuer} ${reason}`
      const line = lines.get(key)
      if (line !== undefined && Math.abs(clock() - line.at) < oneLineMs) {
        line.unlogged += 1
        return
      }
      lines.set(key, { at: clock(), unlogged: 0 })
      log.info({ issuer, reason, unlogged: line?.unlogged ?? 0 }, 'an identity token was refused')
    },
  }
}
