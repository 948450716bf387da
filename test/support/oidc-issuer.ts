import { once } from 'node:events'
import http, { type RequestListener } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose'
import type { Test } from 'tap'

/** A minimal OIDC provider: discovery and keys over HTTP, and tokens without a login. */
export interface OidcIssuer {
  /** Its issuer, which is also its address. */
  readonly url: string
  /** The requested paths, in order. */
  readonly asked: string[]
  /** Replaces the documents, unless it is undefined. */
  answer: RequestListener | undefined
  /** The published keys, by `kid`. */
  readonly published: Map<string, JWK>
  /** Creates a key and, by default, publishes it. */
  addKey(kid: string, options?: { alg?: string; publish?: boolean }): Promise<void>
  /** A token for the audience `tollgate` that expires in five minutes, unless the claims differ. */
  sign(claims?: JWTPayload, header?: { kid?: string; [name: string]: unknown }): Promise<string>
  /** Stops listening and closes all connections; `start` listens on the same address again. */
  stop(): Promise<void>
  start(): Promise<void>
}

export interface OidcIssuerOptions {
  /** A certificate, to serve over https. */
  readonly tls?: { readonly key: string; readonly cert: string }
  /** Milliseconds since the epoch. */
  readonly clock?: () => number
}

/** Starts a provider with the key `first`; it ends with `t`. */
export async function startOidcIssuer(
  t: Test,
  options: OidcIssuerOptions = {},
): Promise<OidcIssuer> {
  const { tls, clock = Date.now } = options
  const keys = new Map<
    string,
    { alg: string; privateKey: Awaited<ReturnType<typeof generateKeyPair>>['privateKey'] }
  >()
  const answer: RequestListener = (request, response) => {
    issuer.asked.push(request.url ?? '')
    if (issuer.answer !== undefined) return issuer.answer(request, response)
    const documents: Record<string, unknown> = {
      '/.well-known/openid-configuration': { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` },
      '/keys': { keys: [...issuer.published.values()] },
    }
    const document = documents[request.url ?? '']
    response.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(document))
  }
  let server: http.Server
  let port = 0

  async function start(): Promise<void> {
    server = tls === undefined ? http.createServer(answer) : https.createServer(tls, answer)
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

  await start()
  const issuer: OidcIssuer = {
    url: `${tls === undefined ? 'http' : 'https'}://localhost:${port}`,
    asked: [],
    answer: undefined,
    published: new Map(),
    async addKey(kid, { alg = 'ES256', publish = true } = {}) {
      const pair = await generateKeyPair(alg, { extractable: true })
      keys.set(kid, { alg, privateKey: pair.privateKey })
      const jwk = { ...(await exportJWK(pair.publicKey)), kid, alg, use: 'sig' }
      if (publish) issuer.published.set(kid, jwk)
    },
    sign(claims = {}, header = {}) {
      const { kid = 'first', ...others } = header
      const key = keys.get(kid)
      if (key === undefined) throw new Error(`there is no key ${kid}`)
      const now = Math.floor(clock() / 1_000)
      const standard = { iss: issuer.url, aud: 'tollgate', iat: now, exp: now + 300 }
      const payload = Object.entries({ ...standard, ...claims }).filter(
        ([, value]) => value !== null,
      )
      return new SignJWT(Object.fromEntries(payload))
        .setProtectedHeader({ alg: key.alg, kid, ...others })
        .sign(key.privateKey)
    },
    stop,
    start,
  }
  t.teardown(async () => {
    if (server.listening) await stop()
  })
  await issuer.addKey('first')
  return issuer
}
