/**
 * Signing in at an identity provider: an authorization code with PKCE. The browser stores state and verifier until it
 * returns, never a token.
 */

import { ApiError, exchange } from './api.ts'
import { isBlocked, storage } from './storage.ts'

export interface Provider {
  readonly issuer: string
  readonly name: string
  /** The provider's sign-in page, without state and challenge. */
  readonly page: string
}

interface Begun {
  readonly issuer: string
  readonly state: string
  readonly verifier: string
  /** The path to which this provider redirects the browser; each provider has its own. */
  readonly back: string
  /** The address to return to. */
  readonly address: string
}

const keptUnder = 'tollgate-sign-in'
/** The paths to which providers redirect. */
const backs = /^\/console\/signed-in(?:\/|$)/
/** Maximum length of a provider's text; a longer one would push everything else off the page. */
const maxRefusalLength = 300

/** Whether a provider has redirected the browser to this page. */
export const isReturning = backs.test(location.pathname)

/** The ways to sign in. */
export interface Ways {
  readonly providers: readonly Provider[]
  /** The names of providers that do not respond to the service. */
  readonly unavailable?: readonly string[]
  /** Whether the service has not said which providers there are. */
  readonly isUnknown?: boolean
  /** Whether an identity token may be stored in the tab; undefined if unknown. */
  readonly keepsToken?: boolean
  /** The sample of `npm start`, for holders of its link. */
  readonly sampleUsers?: readonly string[]
}

/** Reads the ways to sign in: only by pasting a token, if the service does not respond. */
export async function readWays(): Promise<Ways> {
  const unknown: Ways = { providers: [], isUnknown: true }
  try {
    const response = await fetch('/console/sign-in', { cache: 'no-store' })
    return response.ok ? await response.json() : unknown
  } catch {
    return unknown
  }
}

/** Navigates to the provider's page. Rejects with an ApiError. */
export async function begin(provider: Provider): Promise<undefined> {
  const { begun, url } = await prepare(provider)
  storage.setItem(keptUnder, JSON.stringify(begun))
  location.assign(url)
  return undefined
}

let waiting: BroadcastChannel | undefined

/**
 * Opens the provider's page in a new tab, since this page has a form that must not be lost. Once the provider has
 * redirected that tab, it hands its address to this one, which alone knows the verifier and calls `onBack` with the
 * token. Rejects with an ApiError.
 */
export async function beginBeside(
  provider: Provider,
  onBack: (token: Promise<string>) => void,
): Promise<undefined> {
  const { begun, url } = await prepare(provider)
  stopWaiting()
  const channel = new BroadcastChannel(keptUnder)
  waiting = channel
  channel.onmessage = ({ data }) => {
    const back = new URL(String(data), location.origin)
    if (back.searchParams.get('state') !== begun.state) return
    channel.postMessage(begun.state)
    stopWaiting()
    onBack(tokenAt(back, begun))
  }
  open(url, '_blank', 'noopener')
  return undefined
}

/** No longer expects the tab that `beginBeside` has opened. */
export function stopWaiting(): void {
  waiting?.close()
  waiting = undefined
}

/** Duration after which no other tab takes an address; milliseconds. */
const takenMs = 2_000

/** Whether another tab takes the address to which a provider has redirected this one. */
function isTaken(address: URL): Promise<boolean> {
  const channel = new BroadcastChannel(keptUnder)
  const taken = new Promise<boolean>((resolve) => {
    channel.onmessage = ({ data }) => {
      if (data === address.searchParams.get('state')) resolve(true)
    }
    setTimeout(() => resolve(false), takenMs)
  })
  channel.postMessage(address.pathname + address.search)
  return taken.finally(() => channel.close())
}

/** A sign-in at the provider, and the address of its page for it. Rejects with an ApiError. */
async function prepare({ issuer, page }: Provider): Promise<{ begun: Begun; url: URL }> {
  if (!isSecureContext) {
    throw new ApiError(
      0,
      'insecure',
      'Signing in with a provider requires https, or an address of this machine.',
    )
  }
  // The page would know nothing of the sign-in when the provider redirects the browser to it.
  if (isBlocked) {
    throw new ApiError(
      0,
      'blocked',
      'Signing in with a provider requires the storage of this tab, which the browser blocks.',
    )
  }
  const [state, verifier] = [randomText(), randomText()]
  const address = location.pathname + location.search
  const url = new URL(page)
  const back = new URL(url.searchParams.get('redirect_uri') ?? '').pathname
  const begun: Begun = { issuer, state, verifier, back, address }
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))
  url.searchParams.set('state', state)
  url.searchParams.set('code_challenge', toBase64Url(new Uint8Array(digest)))
  return { begun, url }
}

/**
 * The token, if this is the address to which the provider has redirected the browser; undefined otherwise. Returns to
 * the address that was open before. Rejects with an ApiError.
 */
export async function finish(): Promise<string | undefined> {
  const here = new URL(location.href)
  if (!backs.test(here.pathname)) return undefined
  const begun = takeBegun()
  // First, because the code must not stay in the address.
  history.replaceState(null, '', begun?.address ?? '/console')
  dispatchEvent(new PopStateEvent('popstate'))
  if (begun === undefined && (await isTaken(here))) {
    throw new ApiError(0, 'elsewhere', 'Go on in the tab with your form, and close this one.')
  }
  return tokenAt(here, begun)
}

/** The token for the code in the address to which a provider has redirected the browser. */
async function tokenAt({ pathname, searchParams: query }: URL, begun?: Begun): Promise<string> {
  const code = query.get('code')
  const refusal = query.get('error_description') ?? query.get('error')
  const from = query.get('iss')
  const isOurs = query.get('state') === begun?.state && pathname === begun?.back
  // Validated even before a refusal is shown: anyone can create a link with a text in it.
  if (!begun || !isOurs || !(code || refusal) || (from !== null && from !== begun.issuer)) {
    throw new ApiError(0, 'unknown', 'This sign-in was not begun in this tab; begin again.')
  }
  if (refusal || code === null) {
    const text = String(refusal).slice(0, maxRefusalLength)
    throw new ApiError(0, 'refused', `The identity provider says: ${text}`)
  }
  const { issuer, verifier } = begun
  return exchange('/console/sign-in', { issuer, code, verifier })
}

function takeBegun(): Begun | undefined {
  const kept = storage.getItem(keptUnder)
  storage.removeItem(keptUnder)
  return kept === null ? undefined : JSON.parse(kept)
}

/** A text that nobody guesses; works without https. */
export function randomText(): string {
  return toBase64Url(crypto.getRandomValues(new Uint8Array(32)))
}

function toBase64Url(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes))
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}
