import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import root, { type Test } from 'tap'
import { noTrail } from '../../../src/audit/trail.ts'
import { openOidcProviders } from '../../../src/identity/oidc/configured-providers.ts'
import type { ExternalOidc } from '../../../src/kinds/resources.ts'
import type { Stop } from '../../../src/runtime/shutdown.ts'
import { type ConfigError, loadConfig } from '../../../src/settings/config.ts'
import { checkSettings } from '../../../src/wiring/check-settings.ts'
import { makeCertificate, noOpenssl } from '../../support/certificates.ts'
import { type OidcIssuer, startOidcIssuer } from '../../support/oidc-issuer.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

type Entry = Readonly<Record<string, unknown>>

/** An entry of the file for this issuer. */
function entry({ url }: OidcIssuer, claim = 'sub', more: object = {}): Entry {
  const claimMappings = { username: { claim, prefix: '' }, groups: { claim: 'groups', prefix: '' } }
  return { issuer: { url, audiences: ['tollgate'], ...more }, claimMappings }
}

function openWorld(t: Test, jwt: readonly Entry[], settings: Record<string, string> = {}) {
  const folder = temporaryFolder(t)
  const path = join(folder, 'providers.yaml')
  const lines: string[] = []
  const stops: Stop[] = []
  let tenant: ExternalOidc | undefined
  const save = (text: string): void => {
    writeFileSync(join(folder, 'fresh'), text)
    renameSync(join(folder, 'fresh'), path)
  }
  const put = (entries: readonly Entry[]): void =>
    save(
      JSON.stringify({
        apiVersion: 'apiserver.config.k8s.io/v1',
        kind: 'AuthenticationConfiguration',
        jwt: entries,
      }),
    )
  put(jwt)
  const env = { OIDC_PROVIDERS_FILE: path, RESOURCES: `file:${folder}`, DATA_DIR: folder }
  const context = {
    config: loadConfig({ ...env, ...settings }, checkSettings),
    env: {},
    log: pino({}, { write: (line: string) => lines.push(line) }),
    clock: Date.now,
    audit: noTrail,
    signal: new AbortController().signal,
    onFault: (error: unknown) => t.fail(String(error)),
    stops,
  }
  const oidc = openOidcProviders(context, () => tenant, { note() {} })
  t.teardown(() => {
    for (const stop of stops) if (typeof stop === 'function') void stop()
  })
  return {
    oidc,
    path,
    put,
    save,
    lines,
    setTenant(wanted: ExternalOidc | undefined) {
      tenant = wanted
    },
    /** The user of a token of this issuer; undefined: no provider, or a refusal. */
    async userOf(issuer: OidcIssuer, claims: object = { sub: 'ada', name: 'Ada' }) {
      const verify = oidc.find(issuer.url)
      const caller = await verify?.(await issuer.sign({ ...claims }), Date.now())
      return caller?.user
    },
  }
}

root.test('providers of a file come and go with it', async (t) => {
  const [first, second] = [await startOidcIssuer(t), await startOidcIssuer(t)]
  const { put, userOf, oidc } = openWorld(t, [entry(first)])
  t.equal(await userOf(first), 'ada')
  t.equal(oidc.find(second.url), undefined)
  const { length } = first.asked
  put([entry(first), entry(second)])
  await poll(() => oidc.find(second.url), 'the second provider is in force')
  t.equal(await userOf(second), 'ada')
  t.equal(first.asked.length, length, 'an unchanged provider is not read again')
  const token = await second.sign({ sub: 'ada', name: 'Ada' })
  put([entry(second, 'name')])
  await poll(() => oidc.find(first.url) === undefined, 'the first provider is gone')
  t.match(await oidc.find(second.url)?.(token, Date.now()), { user: 'Ada' }, 'by the new rules')
})

root.test('if the file becomes invalid, its last valid content stays in force', async (t) => {
  const issuer = await startOidcIssuer(t)
  const { put, save, path, userOf, lines } = openWorld(t, [entry(issuer)])
  const told = (what: string) => poll(() => lines.some((line) => line.includes(what)), what)
  save('jwt: [')
  await told('line 1: ')
  t.equal(await userOf(issuer), 'ada')
  put([entry(issuer, 'name'), entry(issuer)])
  await told('names an issuer that another provider has')
  t.equal(await userOf(issuer), 'ada', 'by the old rules')
  rmSync(path)
  await told('cannot read the file of OIDC providers')
  t.equal(await userOf(issuer), 'ada')
  put([entry(issuer, 'name')])
  await poll(async () => (await userOf(issuer)) === 'Ada', 'the corrected file is in force')
})

root.test('a provider with an unsupported field is left out, the others stay', async (t) => {
  const [first, second] = [await startOidcIssuer(t), await startOidcIssuer(t)]
  const strange = entry(first, 'sub', { egressSelectorType: 'cluster' })
  const { put, oidc, lines, userOf } = openWorld(t, [strange, entry(second)])
  t.equal(oidc.find(first.url), undefined)
  t.equal(await userOf(second), 'ada')
  t.match(lines.join(''), /line \d+: jwt\[0\].issuer.egressSelectorType is not supported/)
  put([entry(first)])
  await poll(() => oidc.find(first.url), 'the provider is in force')
  put([strange])
  await poll(() => oidc.find(first.url) === undefined, 'the provider is left out again')
})

root.test('an invalid file stops the start, and all its problems are reported', async (t) => {
  const issuer = await startOidcIssuer(t)
  const problemsOf = (jwt: readonly Entry[], settings?: Record<string, string>) => {
    try {
      openWorld(t, jwt, settings)
      return []
    } catch (error) {
      return (error as ConfigError).problems
    }
  }
  t.match(problemsOf([entry(issuer), entry(issuer, 'name')]), [
    /^OIDC_PROVIDERS_FILE: .*, line 1: jwt\[1\].issuer.url names an issuer/,
  ])
  const own = { OIDC_ISSUER_URL: issuer.url, OIDC_CLIENT_ID: 'tollgate' }
  t.match(problemsOf([entry(issuer)], own), [/^OIDC_PROVIDERS_FILE: .* that another provider has/])
  t.match(problemsOf([{}], { API_ADDRESS: 'x' }), [
    /^API_ADDRESS/,
    /issuer.url is required/,
    /audiences/,
    /claim/,
    /prefix/,
  ])
  t.match(problemsOf([], { OIDC_PROVIDERS_FILE: '/nowhere' }), [
    /^OIDC_PROVIDERS_FILE: \/nowhere cannot be read \(ENOENT\)/,
  ])
})

root.test(
  'discovery may have another URL and an authority of its own',
  { skip: noOpenssl },
  async (t) => {
    const certificate = makeCertificate(t)
    const issuer = await startOidcIssuer(t, { tls: certificate })
    const certificateAuthority = certificate.cert
    const { userOf, put, oidc } = openWorld(t, [entry(issuer, 'sub', { certificateAuthority })])
    t.equal(await userOf(issuer), 'ada')
    const elsewhere = { certificateAuthority, discoveryURL: `${issuer.url}/about` }
    issuer.answer = (request, response) => {
      issuer.answer = undefined
      response.end(JSON.stringify({ issuer: issuer.url, jwks_uri: `${issuer.url}/keys` }))
      t.equal(request.url, '/about')
    }
    const { length } = issuer.asked
    put([entry(issuer, 'sub', elsewhere)])
    await poll(() => issuer.asked.length > length + 1, 'its keys are read')
    t.strictSame(issuer.asked.slice(length), ['/about', '/keys'])
    t.equal(await userOf(issuer), 'ada')
    const verify = oidc.find(issuer.url)
    put([entry(issuer)])
    await poll(() => oidc.find(issuer.url) !== verify, 'fails without its authority')
    await t.rejects(userOf(issuer), { code: 'identity_unavailable' })
  },
)

root.test("the Tenant's provider is added unless the settings have it", async (t) => {
  const [first, second] = [await startOidcIssuer(t), await startOidcIssuer(t)]
  const { setTenant, userOf, oidc, lines } = openWorld(t, [entry(first, 'name')])
  setTenant({ issuerUrl: second.url, clientId: 'tollgate', ttlSeconds: 300 })
  t.equal(await userOf(second), 'ada')
  setTenant({ issuerUrl: second.url, clientId: 'web', ttlSeconds: 300 })
  await t.rejects(userOf(second), { code: 'credential_invalid' })
  setTenant({ issuerUrl: first.url, clientId: 'tollgate', ttlSeconds: 300 })
  t.equal(await userOf(first), 'Ada', 'the settings take precedence')
  t.match(lines.join(''), /cannot use the OIDC provider of the Tenant/)
  t.equal(oidc.find(second.url), undefined)
  setTenant(undefined)
  t.equal(await userOf(first), 'Ada')
})

root.test('the Tenant cannot name the users of the provider in the settings', async (t) => {
  const [own, theirs] = [await startOidcIssuer(t), await startOidcIssuer(t)]
  const prefix = { OIDC_USERNAME_PREFIX: 'oidc:', OIDC_GROUPS_PREFIX: 'oidc:' }
  const provedBy = async (settings: Record<string, string>, issuer: OidcIssuer) => {
    const { oidc, setTenant } = openWorld(t, [], { ...prefix, ...settings })
    setTenant({ issuerUrl: theirs.url, clientId: 'tollgate', ttlSeconds: 60 })
    const token = await issuer.sign({ sub: 'ada', preferred_username: 'ada' })
    const caller = await oidc.find(issuer.url)?.(token, Date.now())
    t.equal(caller?.user, 'oidc:ada')
    return caller?.by === 'token' ? caller.proof : undefined
  }
  const settings = { OIDC_ISSUER_URL: own.url, OIDC_CLIENT_ID: 'tollgate' }
  t.match(await provedBy(settings, own), { prefixesUsers: true, prefixesGroups: true })
  t.match(await provedBy(settings, theirs), { prefixesUsers: false, prefixesGroups: false })
  t.match(await provedBy({}, theirs), { prefixesUsers: true }, 'alone it has the prefix to itself')
})

root.test('of providers with overlapping prefixes no user is reviewed', async (t) => {
  const [first, second] = [await startOidcIssuer(t), await startOidcIssuer(t)]
  const prefixed = (issuer: OidcIssuer, users: string, groups: string): Entry => ({
    ...entry(issuer),
    claimMappings: {
      username: { claim: 'sub', prefix: users },
      groups: { claim: 'groups', prefix: groups },
    },
  })
  const world = openWorld(t, [prefixed(first, 'a:', 'g:'), prefixed(second, 'b:', 'g:')])
  const { oidc, put, lines } = world
  const proofOf = async (issuer: OidcIssuer) => {
    const caller = await oidc.find(issuer.url)?.(await issuer.sign({ sub: 'ada' }), Date.now())
    return caller?.by === 'token' && caller.proof.by === 'oidc' ? caller.proof : undefined
  }
  const own = { prefixesUsers: true, prefixesGroups: false }
  t.match(await proofOf(first), own, 'only the groups have one prefix')
  t.match(await proofOf(second), own)
  t.match(lines.join(''), /another OIDC provider can issue names with the prefix of this one/)
  for (const prefix of ['a:', 'a', 'a:b']) {
    put([prefixed(first, 'a:', 'g:'), prefixed(second, prefix, 'h:')])
    const shared = { prefixesUsers: false, prefixesGroups: true }
    const isShared = async () => (await proofOf(second))?.prefixesGroups
    await poll(isShared, 'the new prefixes are in force')
    t.match(await proofOf(first), shared, `a: beside ${prefix}`)
    t.match(await proofOf(second), shared, `${prefix} beside a:`)
    put([prefixed(first, 'a:', 'g:'), prefixed(second, '', 'g:')])
    await poll(async () => !(await isShared()), 'the second has no prefix')
    t.match(await proofOf(first), own, 'an empty prefix takes none away')
  }
})

root.test("the Tenant's provider takes no prefix from one of the file", async (t) => {
  const [written, theirs] = [await startOidcIssuer(t), await startOidcIssuer(t)]
  const claimMappings = { username: { claim: 'sub', prefix: 'oidc:ours:' } }
  const entries = [{ ...entry(written), claimMappings }]
  const { oidc, setTenant } = openWorld(t, entries, { OIDC_USERNAME_PREFIX: 'oidc:' })
  setTenant({ issuerUrl: theirs.url, clientId: 'tollgate', ttlSeconds: 60 })
  const claims = { sub: 'ada', preferred_username: 'ours:ada' }
  for (const issuer of [written, theirs]) {
    const caller = await oidc.find(issuer.url)?.(await issuer.sign(claims), Date.now())
    const proof = { prefixesUsers: issuer === written }
    t.match(caller, { user: 'oidc:ours:ada', proof })
  }
})
