import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import root from 'tap'
import { consoleTests } from '../support/console.ts'
import { startOidcIssuer } from '../support/oidc-issuer.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const [honest, hostile] = [await startOidcIssuer(root), await startOidcIssuer(root)]
/** What the hostile provider is asked for with a code. */
const codes: string[] = []
let registered = ''
/** What the hostile one answers codes of its own with; undefined: it has none, and sends browsers to the other. */
let vouchesFor: string | undefined

/** Serves a discovery document, keys, and what else a provider does. */
function providing(
  issuer: typeof honest,
  act: (path: string, query: URLSearchParams) => object,
): RequestListener {
  return (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', issuer.url)
    const answer = (() => {
      if (pathname === '/keys') return { keys: [...issuer.published.values()] }
      if (pathname !== '/.well-known/openid-configuration') return act(pathname, searchParams)
      return {
        ...{ issuer: issuer.url, jwks_uri: `${issuer.url}/keys` },
        authorization_endpoint: `${issuer.url}/authorize`,
        token_endpoint: `${issuer.url}/token`,
      }
    })()
    const { location } = answer as { location?: string }
    response.writeHead(location ? 302 : 200, { ...(location && { location }) })
    response.end(JSON.stringify(answer))
  }
}

// The user is signed in there, and it does not say who it is (RFC 9207).
honest.answer = providing(honest, (_path, query) => {
  if (query.get('redirect_uri') !== registered) return { error: 'invalid_request' }
  const back = new URL(registered)
  back.searchParams.set('code', 'of-the-honest-one')
  back.searchParams.set('state', query.get('state') ?? '')
  return { location: back.href }
})
// It begins the sign-in at the other one, as the client of the gateway there.
hostile.answer = providing(hostile, (path, query) => {
  if (vouchesFor !== undefined) {
    const back = `${query.get('redirect_uri')}?${new URLSearchParams({ code: 'own', state: query.get('state') ?? '' })}`
    return path === '/token' ? { id_token: vouchesFor } : { location: back }
  }
  if (path === '/token') codes.push(path)
  query.set('redirect_uri', registered)
  return path === '/token' ? {} : { location: `${honest.url}/authorize?${query}` }
})

const file = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
  - issuer: { url: '${hostile.url}', audiences: [tollgate] }
    claimMappings: { username: { claim: sub, prefix: 'partner:' } }
`
const test = consoleTests(
  {
    env: {
      OIDC_ISSUER_URL: honest.url,
      OIDC_CLIENT_ID: 'tollgate',
      OIDC_PROVIDERS_FILE: join(
        temporaryFolder(root, { 'providers.yaml': file }),
        'providers.yaml',
      ),
    },
  },
  [honest.url, hostile.url],
)

test('a provider does not get the code of another one', async (t, { page, gateway }) => {
  registered = `${gateway.url}/console/signed-in`
  await page.goto(`${gateway.url}/console`)
  await page.getByRole('button', { name: `Sign in with ${new URL(hostile.url).host}` }).click()
  await page.getByText('This sign-in was not begun in this tab; begin again.').waitFor()
  t.strictSame(codes, [])
  t.equal(page.url(), `${gateway.url}/console`)
})

test('a provider signs nobody in as a user of another source', async (t, world) => {
  const { page, gateway, expected } = world
  expected.add(401)
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user })
  const mallory = await honest.sign({ sub: 'mallory', aud: 'tollgate' })
  for (vouchesFor of [mallory, key, `token-${user}`]) {
    await page.goto(`${gateway.url}/console`)
    await page.getByRole('button', { name: `Sign in with ${new URL(hostile.url).host}` }).click()
    await page.getByText('answered with a token of another issuer; begin again.').waitFor()
    t.equal(await page.evaluate('sessionStorage.length'), 0)
  }
  vouchesFor = await hostile.sign({ sub: 'carol', aud: 'tollgate' })
  await page.getByRole('button', { name: `Sign in with ${new URL(hostile.url).host}` }).click()
  await page.getByText('partner:carol').first().waitFor()
})
