import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose'
import Provider, { type Context } from 'oidc-provider'
import type { Test } from 'tap'

/**
 * A real OIDC provider (`oidc-provider`) in this process, with its own logins, grants and tokens.
 */
export interface OpenidProvider {
  /** Its issuer, which is also its address. */
  readonly url: string
  /** Groups of each user, and of the client `robot`. */
  readonly groups: Map<string, readonly string[]>
  /** Both tokens of the authorization code that a user gets by logging in. */
  logIn(user: string): Promise<{ readonly idToken: string; readonly accessToken: string }>
  /** Lets a browser sign in as this user, for the public client `page`, and return to this address. */
  welcome(user: string, redirectUri: string): void
  /** The token of the client `robot`, for its credentials. */
  robotToken(): Promise<string>
  /** Signs any claims with its current signing key. */
  sign(claims: JWTPayload, header?: Readonly<Record<string, unknown>>): Promise<string>
  /** Publishes these keys and signs with the first; new ones are created. */
  rotate(kids: readonly [string, ...string[]]): Promise<void>
  /** Its public keys. */
  readonly published: readonly JWK[]
  /** Stops listening and closes all connections; `start` listens on the same address again. */
  stop(): Promise<void>
  start(): Promise<void>
}

const callback = 'http://127.0.0.1/callback'
/** The resource of tokens by default; their audience is the service's client id. */
const resource = 'https://tollgate.example/'
const secret = randomBytes(16).toString('hex')

/** Starts a provider with the key `first`; it ends with `t`. */
export async function startOpenidProvider(t: Test): Promise<OpenidProvider> {
  const server = http.createServer((request, response) => void answer(request, response))
  let port = 0
  let provider: Provider
  let keys: readonly JWK[] = []
  const groups = new Map<string, readonly string[]>()
  let visitor = ''
  const returns = new Set<string>()

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!request.url?.startsWith('/interaction/')) return provider.callback()(request, response)
    const { params } = await provider.interactionDetails(request, response)
    const login = { accountId: params.login_hint ?? visitor }
    return provider.interactionFinished(request, response, { login })
  }

  async function start(): Promise<void> {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    port = (server.address() as AddressInfo).port
  }

  async function stop(): Promise<void> {
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }

  async function askForToken(form: Record<string, string>): Promise<Record<string, string>> {
    const body = new URLSearchParams({ ...form, client_secret: secret })
    const answer = await fetch(`${self.url}/token`, { method: 'POST', body })
    if (!answer.ok) throw new Error(`no token: ${await answer.text()}`)
    return (await answer.json()) as Record<string, string>
  }

  await start()
  const self: OpenidProvider = {
    url: `http://localhost:${port}`,
    groups,
    async logIn(user) {
      const verifier = randomBytes(32).toString('base64url')
      const asked = new URLSearchParams({
        ...{ client_id: 'tollgate', response_type: 'code', redirect_uri: callback },
        ...{ scope: 'openid profile', login_hint: user, code_challenge_method: 'S256' },
        code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      })
      const code = await followToCode(`${self.url}/auth?${asked}`)
      const tokens = await askForToken({
        ...{ grant_type: 'authorization_code', client_id: 'tollgate', redirect_uri: callback },
        ...{ code, code_verifier: verifier },
      })
      return { idToken: tokens.id_token ?? '', accessToken: tokens.access_token ?? '' }
    },
    welcome(user, redirectUri) {
      visitor = user
      returns.add(redirectUri)
      provider = createProvider(self.url, keys, groups, [...returns])
    },
    async robotToken() {
      const form = { grant_type: 'client_credentials', client_id: 'robot' }
      return (await askForToken(form)).access_token ?? ''
    },
    sign(claims, header = {}) {
      const [key] = keys
      return new SignJWT(claims)
        .setProtectedHeader({ alg: 'RS256', ...(key?.kid && { kid: key.kid }), ...header })
        .sign(key as JWK)
    },
    async rotate(kids) {
      keys = await Promise.all(
        kids.map(async (kid) => keys.find((key) => key.kid === kid) ?? (await makeKey(kid))),
      )
      provider = createProvider(self.url, keys, groups, [...returns])
    },
    get published() {
      return keys.map(({ kty, n, e, kid, alg, use }) => ({ kty, n, e, kid, alg, use }) as JWK)
    },
    stop,
    start,
  }
  await self.rotate(['first'])
  t.teardown(async () => {
    if (server.listening) await stop()
  })
  return self
}

async function makeKey(kid: string): Promise<JWK> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  return { ...(await exportJWK(privateKey)), kid, alg: 'RS256', use: 'sig' }
}

function createProvider(
  issuer: string,
  keys: readonly JWK[],
  groups: ReadonlyMap<string, readonly string[]>,
  returns: readonly string[],
): Provider {
  const client = { client_secret: secret, token_endpoint_auth_method: 'client_secret_post' }
  const logins = { grant_types: ['authorization_code'], response_types: ['code'] }
  const robots = { grant_types: ['client_credentials'], response_types: [] }
  return new Provider(issuer, {
    clients: [
      { client_id: 'tollgate', redirect_uris: [callback], ...logins, ...client },
      ...(returns.length > 0
        ? [
            {
              ...{ client_id: 'page', redirect_uris: [...returns], ...logins },
              token_endpoint_auth_method: 'none',
            },
          ]
        : []),
      { client_id: 'robot', redirect_uris: [], ...robots, ...client },
    ],
    jwks: { keys },
    cookies: { keys: [secret] },
    claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
    conformIdTokenClaims: false,
    findAccount: (_context: Context, user: string) => ({
      accountId: user,
      claims: () => ({ sub: user, preferred_username: user, groups: groups.get(user) }),
    }),
    extraTokenClaims: (_context: Context, token: { accountId?: string; clientId: string }) => ({
      groups: groups.get(token.accountId ?? token.clientId),
      ...(token.accountId && { preferred_username: token.accountId }),
    }),
    interactions: { url: (_context: Context, { uid }: { uid: string }) => `/interaction/${uid}` },
    async loadExistingGrant({ oidc }: Context) {
      const { client, session } = oidc
      const of = { clientId: client.clientId, accountId: session.accountId }
      const grant = new oidc.provider.Grant(of)
      grant.addOIDCScope('openid profile')
      grant.addResourceScope(resource, 'api')
      await grant.save()
      return grant
    },
    ttl: Object.fromEntries(
      ['AccessToken', 'ClientCredentials', 'Grant', 'IdToken', 'Interaction', 'Session'].map(
        (each) => [each, 600],
      ),
    ),
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: 'api',
          audience: 'tollgate',
          accessTokenFormat: 'jwt',
        }),
      },
    },
  })
}

/** Follows redirects as a browser would, until one contains a code. */
async function followToCode(start: string): Promise<string> {
  const cookies = new Map<string, string>()
  let place = start
  for (let steps = 0; steps < 10; steps += 1) {
    const cookie = [...cookies].map((each) => each.join('=')).join('; ')
    const answer = await fetch(place, { redirect: 'manual', headers: { cookie } })
    for (const set of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
      cookies.set(name, value)
    }
    const next = answer.headers.get('location')
    if (next === null) throw new Error(`no redirect: ${answer.status} ${await answer.text()}`)
    place = new URL(next, place).href
    const code = place.startsWith(callback) && new URL(place).searchParams.get('code')
    if (code) return code
  }
  throw new Error(`too many redirects, the last one to ${place}`)
}
