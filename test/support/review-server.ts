import { writeFileSync } from 'node:fs'
import http, { type IncomingMessage, type RequestListener } from 'node:http'
import https from 'node:https'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { Certificate } from './certificates.ts'
import { listenLocally } from './listening.ts'
import { temporaryFolder } from './temporary-folder.ts'

/**
 * The two review APIs of a cluster as documented (authentication.k8s.io/v1,
 * authorization.k8s.io/v1). A request that is not a review is refused as an API server would.
 */
export interface ReviewServer {
  readonly url: string
  /** The path of a KUBECONFIG for this server. */
  readonly kubeconfig: string
  /** Its own token, in a file. */
  readonly tokenFile: string
  /** The specs of the received reviews, in order. */
  readonly asked: Record<string, unknown>[]
  /** The owner and the audiences of each token. */
  readonly tokens: Map<string, ClusterToken>
  /** Users and groups that may create access policies. */
  readonly admins: Set<string>
  /** Replaces the responses to reviews, unless it is undefined. */
  answer: RequestListener | undefined
  /** Awaited before each review is answered. */
  delay: (() => Promise<void>) | undefined
  /** Switches to another certificate and closes open connections. */
  setCertificate(tls: Certificate): void
}

export interface ClusterToken {
  readonly username: string
  readonly groups?: readonly string[]
  /** The API server's own by default. */
  readonly audiences?: readonly string[]
}

const ownAudience = 'https://kubernetes.default.svc'
export const ownToken = 'own-token'

/** Starts one; it ends with `t`. With a certificate it uses TLS. */
export async function startReviewServer(t: Test, tls?: Certificate): Promise<ReviewServer> {
  const answer: RequestListener = (request, response) => {
    if (world.answer !== undefined) return world.answer(request, response)
    void review(request).then(([status, body]) => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(body))
    })
  }

  async function review(request: IncomingMessage): Promise<readonly [number, unknown]> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    if (request.headers.authorization !== `Bearer ${ownToken}`) return failure(401, 'Unauthorized')
    if (request.method !== 'POST') return failure(405, 'MethodNotAllowed')
    if (request.headers['content-type'] !== 'application/json') {
      return failure(415, 'UnsupportedMediaType')
    }
    const kind = kinds[request.url ?? '']
    if (kind === undefined) return failure(404, 'NotFound')
    const body = JSON.parse(Buffer.concat(chunks).toString())
    if (body.apiVersion !== kind.apiVersion || body.kind !== kind.kind) {
      return failure(400, 'BadRequest')
    }
    const strange = Object.keys(body.spec).filter((field) => !kind.fields.includes(field))
    if (strange.length > 0) return failure(400, `unknown field "spec.${strange[0]}"`)
    world.asked.push(body.spec)
    await world.delay?.()
    const status = kind.kind === 'TokenReview' ? toTokenStatus(body.spec) : toAccess(body.spec)
    return [201, { ...body, metadata: { creationTimestamp: null }, status }]
  }

  function toTokenStatus(spec: { token: string; audiences?: readonly string[] }): object {
    const found = world.tokens.get(spec.token)
    const audiences = found?.audiences ?? [ownAudience]
    const meantFor = (spec.audiences ?? [ownAudience]).filter((each) => audiences.includes(each))
    if (found === undefined || meantFor.length === 0) {
      return { user: {}, error: '[invalid bearer token, token lookup failed]' }
    }
    const { username, groups = [] } = found
    return { authenticated: true, user: { username, uid: '1', groups }, audiences: meantFor }
  }

  function toAccess(spec: { user: string; groups: readonly string[]; resourceAttributes: object }) {
    const { resourceAttributes: asked } = spec
    const isAsked =
      JSON.stringify(Object.entries(asked).sort()) ===
      JSON.stringify([
        ['group', 'tollgate.dev'],
        ['namespace', 'models-as-a-service'],
        ['resource', 'accesspolicies'],
        ['verb', 'create'],
      ])
    const allowed = isAsked && [spec.user, ...spec.groups].some((each) => world.admins.has(each))
    return allowed ? { allowed, reason: 'RBAC: allowed' } : { allowed }
  }

  const server = tls === undefined ? http.createServer(answer) : https.createServer(tls, answer)
  const port = await listenLocally(t, server)
  const url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`
  const folder = temporaryFolder(t)
  const [kubeconfig, tokenFile] = [join(folder, 'config'), join(folder, 'token')]
  writeFileSync(tokenFile, `${ownToken}\n`)
  const cluster = { server: url, ...(tls && { 'certificate-authority': tls.path }) }
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'here',
      contexts: [{ name: 'here', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster }],
      users: [{ name: 'u', user: { tokenFile: 'token' } }],
    }),
  )
  const world: ReviewServer = {
    url,
    kubeconfig,
    tokenFile,
    asked: [],
    tokens: new Map(),
    admins: new Set(),
    answer: undefined,
    delay: undefined,
    setCertificate(tls) {
      if (server instanceof https.Server) server.setSecureContext(tls)
      server.closeAllConnections()
    },
  }
  return world
}

const kinds: Readonly<
  Record<string, { kind: string; apiVersion: string; fields: readonly string[] }>
> = {
  '/apis/authentication.k8s.io/v1/tokenreviews': {
    kind: 'TokenReview',
    apiVersion: 'authentication.k8s.io/v1',
    fields: ['token', 'audiences'],
  },
  '/apis/authorization.k8s.io/v1/subjectaccessreviews': {
    kind: 'SubjectAccessReview',
    apiVersion: 'authorization.k8s.io/v1',
    fields: ['user', 'groups', 'uid', 'extra', 'resourceAttributes', 'nonResourceAttributes'],
  },
}

/** A Status, as in API servers' failures. */
function failure(code: number, reason: string): readonly [number, object] {
  return [code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason, code }]
}
