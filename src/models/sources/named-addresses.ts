/**
 * Checks models by the addresses that their names resolve to. Envoy resolves the names itself, so this is a second
 * line of defence: it notices within half a minute that a name leads to a forbidden address.
 */

import { Resolver } from 'node:dns/promises'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { forEachConcurrently } from '../../runtime/concurrency.ts'
import { createRestTimer, repeat } from '../../runtime/loop.ts'
import type { CheckAddress } from '../rules/refuse-addresses.ts'
import type { Contents, ResourceSource } from './resource-source.ts'

/** The addresses of a name; none if it is not resolved. */
type Resolve = (name: string) => Promise<readonly string[]>

interface NamedAddressesOptions {
  readonly source: ResourceSource
  /** Checks URLs by their text. */
  readonly rules: CheckAddress
  readonly resolve?: Resolve
  readonly signal: AbortSignal
  /** Milliseconds between two queries for all names. */
  readonly restMs?: number
}

/** A name, the URLs that contain it, and when it was last checked. */
interface Named {
  readonly urls: Set<string>
  addresses: readonly string[]
  generation: number
}

/** Names that are resolved concurrently, and how long one may block those behind it, in milliseconds. */
const concurrency = 20
const maxBlockMs = 500

/** The source, which yields the same resources again when the result for one of them has changed, and the check. */
export function checkNamedAddresses(options: NamedAddressesOptions): {
  readonly source: ResourceSource
  readonly check: CheckAddress
} {
  const { rules, resolve = createHostResolver(), signal, restMs = 30_000 } = options
  const names = new Map<string, Named>()
  /** Those that have not been resolved yet. They wait for no others. */
  const fresh = new Set<string>()
  /** Counts what the source has yielded. */
  let generation = 0
  let last: Contents | undefined
  let next: Promise<Contents> | undefined
  let change = Promise.withResolvers<void>()
  const alarm = createRestTimer(signal)

  function problemOf(backendUrl: string, addresses: readonly string[]): string | undefined {
    for (const address of addresses) {
      const url = new URL(backendUrl)
      url.hostname = isIP(address) === 6 ? `[${address}]` : address
      const problem = rules(url.href)
      if (problem !== undefined) return problem
    }
    return undefined
  }

  async function check(name: string): Promise<void> {
    const named = names.get(name)
    if (named === undefined) return
    const addresses = await resolve(name)
    // A silent name server changes no earlier result.
    if (addresses.length === 0) return
    const before = named.addresses
    named.addresses = addresses
    const differs = (url: string) => problemOf(url, before) !== problemOf(url, addresses)
    if ([...named.urls].some(differs)) change.resolve()
  }

  /** Names whose server does not respond block the others for at most half a second each. */
  const checkEach = (some: Iterable<string>): Promise<void> =>
    forEachConcurrently([...some], { concurrency, maxBlockMs, signal }, check)

  async function checkAll(): Promise<void> {
    // A load in progress has not checked all of its resources yet.
    for (const [name, { generation: checked }] of names) {
      if (checked < generation - 1) names.delete(name)
    }
    await checkEach(names.keys())
  }

  async function checkFresh(): Promise<void> {
    const some = [...fresh]
    fresh.clear()
    await checkEach(some)
  }

  const onFault = (): void => {}
  void repeat({ step: checkAll, restMs, onFault, signal })
  void repeat({ step: checkFresh, restMs, onFault, signal, alarm })

  return {
    source: {
      async next(abort) {
        next ??= options.source.next(abort)
        // It may reject between two calls; the next call then reports it.
        next.catch(() => {})
        const fromSource = await Promise.race([next, change.promise]).catch((error: unknown) => {
          next = undefined
          throw error
        })
        if (fromSource !== undefined) {
          last = fromSource
          next = undefined
        }
        change = Promise.withResolvers()
        generation += 1
        // A result changes only after there were resources.
        return last as Contents
      },
    },
    check(backendUrl) {
      const problem = rules(backendUrl)
      const name = URL.parse(backendUrl)?.hostname ?? ''
      if (problem !== undefined || name.startsWith('[') || isIP(name) !== 0) return problem
      const known = names.get(name)
      const named = known ?? { urls: new Set(), addresses: [], generation }
      if (known === undefined) {
        names.set(name, named)
        fresh.add(name)
        alarm.ring()
      } else if (named.generation !== generation) {
        named.urls.clear()
        named.generation = generation
      }
      named.urls.add(backendUrl)
      return problemOf(backendUrl, named.addresses)
    },
  }
}

interface ResolveOptions {
  /** Name servers; by default this machine's, with its search domains. */
  readonly servers?: readonly string[]
  /** The file of fixed names, which Envoy reads too. */
  readonly hostsFile?: string
}

/**
 * Resolves as Envoy does, with the search domains of this machine; all addresses of all of them
 * count, also addresses in the hosts file.
 */
export function createHostResolver({
  servers,
  hostsFile = '/etc/hosts',
}: ResolveOptions = {}): Resolve {
  const resolver = new Resolver({ timeout: 1_000, tries: 2 })
  if (servers !== undefined) resolver.setServers(servers)
  const search = servers === undefined ? searchDomains() : []
  return async (name) => {
    const all = name.endsWith('.') ? [name] : [name, ...search.map((each) => `${name}.${each}`)]
    const found = await Promise.allSettled([
      ...all.flatMap((each) => [resolver.resolve4(each), resolver.resolve6(each)]),
      addressesIn(hostsFile, all),
    ])
    return found.flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
  }
}

/** The addresses of these names in a hosts file, whose lines are an address and its names. */
async function addressesIn(
  hostsFile: string,
  names: readonly string[],
): Promise<readonly string[]> {
  const requested = new Set(names.map((name) => name.replace(/\.$/, '')))
  const lines = (await readFile(hostsFile, 'utf8')).split('\n')
  return lines.flatMap((line) => {
    const [address = '', ...named] = line.replace(/#.*/, '').trim().toLowerCase().split(/\s+/)
    return isIP(address) !== 0 && named.some((name) => requested.has(name)) ? [address] : []
  })
}

function searchDomains(): readonly string[] {
  try {
    const lines = readFileSync('/etc/resolv.conf', 'utf8').matchAll(/^search[ \t]+(.+)$/gm)
    return [...lines].at(-1)?.[1]?.trim().split(/\s+/) ?? []
  } catch {
    return []
  }
}
