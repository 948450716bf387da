import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import root, { test } from 'tap'
import { createReview } from '../../src/identity/kubernetes/review.ts'
import { fromKubeconfig, fromServiceAccount } from '../../src/kubernetes/access.ts'
import { makeCertificate, noOpenssl } from '../support/certificates.ts'
import { ownToken, startReviewServer } from '../support/review-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const path = '/apis/authentication.k8s.io/v1/tokenreviews'
const body = {
  apiVersion: 'authentication.k8s.io/v1',
  kind: 'TokenReview',
  spec: { token: 'ada', audiences: ['https://kubernetes.default.svc'] },
}

test('a pod uses its service account', async (t) => {
  t.strictSame(fromServiceAccount('10.0.0.1', 443, '/f'), {
    server: 'https://10.0.0.1:443',
    tokenFile: '/f/token',
    caFile: '/f/ca.crt',
  })
  t.equal(fromServiceAccount('fd00::1', 6443).server, 'https://[fd00::1]:6443')
})

root.test('verifies the certificate of the API server', { skip: noOpenssl }, async (t) => {
  const [own, other] = [makeCertificate(t), makeCertificate(t)]
  const server = await startReviewServer(t, own)
  server.tokens.set('ada', { username: 'ada' })
  const access = fromKubeconfig(server.kubeconfig)
  t.match(await createReview(access)(path, body), { user: { username: 'ada' } })
  await t.rejects(createReview({ ...access, ca: other.cert })(path, body), /certificate/)
  await t.rejects(createReview({ ...access, caFile: undefined })(path, body), /certificate/)
})

root.test('follows a change of the API server’s certificate', { skip: noOpenssl }, async (t) => {
  const [first, second] = [makeCertificate(t), makeCertificate(t)]
  const server = await startReviewServer(t, first)
  server.tokens.set('ada', { username: 'ada' })
  let passed = 0
  const access = fromKubeconfig(server.kubeconfig)
  const review = createReview(access, { monotonic: () => passed })
  t.match(await review(path, body), { authenticated: true })
  server.setCertificate(second)
  // The first request may fail because its connection was closed.
  await t.rejects(review(path, body))
  await t.rejects(review(path, body), /certificate/, 'the new certificate is not trusted yet')
  writeFileSync(first.path, second.cert)
  passed += 60_000
  t.match(await review(path, body), { authenticated: true }, 'the CA file is read again')
})

test('reads its own token again each minute', async (t) => {
  const server = await startReviewServer(t)
  server.tokens.set('ada', { username: 'ada' })
  let passed = 0
  const { tokenFile } = server
  const review = createReview({ server: server.url, tokenFile }, { monotonic: () => passed })
  t.match(await review(path, body), { authenticated: true })
  writeFileSync(tokenFile, 'another')
  passed += 59_999
  t.match(await review(path, body), { authenticated: true })
  passed += 1
  await t.rejects(review(path, body), /does not believe our own token/)
  writeFileSync(tokenFile, ownToken)
  passed += 60_000
  t.match(await review(path, body), { authenticated: true })
})

test('a token file takes precedence over a token, which counts while the file cannot be read', async (t) => {
  const server = await startReviewServer(t)
  server.tokens.set('ada', { username: 'ada' })
  const { url, tokenFile } = server
  const both = createReview({ server: url, token: 'expired', tokenFile })
  t.match(await both(path, body), { authenticated: true })
  const missing = createReview({ server: url, token: ownToken, tokenFile: `${tokenFile}.gone` })
  t.match(await missing(path, body), { authenticated: true })
  const neither = createReview({ server: url, tokenFile: `${tokenFile}.gone` })
  await t.rejects(neither(path, body), /ENOENT/)
})

test('names what a KUBECONFIG lacks', async (t) => {
  const file = join(temporaryFolder(t), 'config')
  const cluster = { server: 'https://api' }
  const whole = {
    'current-context': 'x',
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user: { token: 't' } }],
  }
  const read = (config: unknown) => {
    writeFileSync(file, JSON.stringify(config))
    return fromKubeconfig(file)
  }
  t.match(read(whole), { server: 'https://api', token: 't' })
  const data = Buffer.from('PEM').toString('base64')
  const certified = { ...cluster, 'certificate-authority-data': data }
  t.match(read({ ...whole, clusters: [{ name: 'c', cluster: certified }] }), { ca: 'PEM' })
  const withCluster = (changed: object) => ({
    ...whole,
    clusters: [{ name: 'c', cluster: { ...cluster, ...changed } }],
  })
  for (const [config, problem] of [
    [[], /is not a KUBECONFIG/],
    [{ ...whole, 'current-context': 'y' }, /has no context "y"/],
    [{ ...whole, clusters: [] }, /has no cluster "c"/],
    [{ ...whole, users: 'u' }, /has no user "u"/],
    [{ ...whole, users: [{ name: 'u', user: { exec: {} } }] }, /has exec/],
    [withCluster({ server: 'http://api' }), /neither https nor local/],
    [withCluster({ 'insecure-skip-tls-verify': true }), /insecure-skip-tls-verify/],
  ] as const) {
    t.throws(() => read(config), problem)
  }
})

test('the error of a KUBECONFIG that is no YAML quotes none of it', async (t) => {
  const file = join(temporaryFolder(t), 'config')
  writeFileSync(file, 'users:\n- name: u\n  user: {token: s3cret: x}\n')
  let message = ''
  t.throws(() => {
    try {
      fromKubeconfig(file)
    } catch (error) {
      message = String(error)
      throw error
    }
  })
  t.match(message, /YAML/)
  t.notMatch(message, /s3cret/)
})
