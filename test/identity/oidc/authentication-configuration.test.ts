import root, { test } from 'tap'
import { parseAuthenticationConfiguration } from '../../../src/identity/oidc/authentication-configuration.ts'
import { makeCertificate, noOpenssl } from '../../support/certificates.ts'

/** As in kube-apiserver's documentation, without the fields that we do not support. */
const good = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
  - issuer:
      url: https://issuer.example
      audiences: [tollgate, web]
      audienceMatchPolicy: MatchAny
    claimValidationRules:
      - claim: hd
        requiredValue: example.com
    claimMappings:
      username:
        claim: sub
        prefix: "oidc:"
      groups:
        claim: groups
        prefix: ""
  - issuer:
      url: http://127.0.0.1:9000/realms/main
      discoveryURL: http://127.0.0.1:9001/about
      audiences: [tollgate]
    claimMappings:
      username: { claim: email, prefix: "" }
`

/** Reads the text with one part replaced. */
function read(part: string | RegExp = '', by = '') {
  return parseAuthenticationConfiguration(good.replace(part, by))
}

test("kube-apiserver's format is read", async (t) => {
  t.strictSame(read(), {
    providers: [
      {
        issuer: 'https://issuer.example',
        discoveryUrl: undefined,
        ca: undefined,
        audiences: ['tollgate', 'web'],
        claims: {
          username: 'sub',
          groups: 'groups',
          usernamePrefix: 'oidc:',
          groupsPrefix: '',
          required: [{ claim: 'hd', value: 'example.com' }],
        },
      },
      {
        issuer: 'http://127.0.0.1:9000/realms/main',
        discoveryUrl: 'http://127.0.0.1:9001/about',
        ca: undefined,
        audiences: ['tollgate'],
        claims: {
          username: 'email',
          groups: undefined,
          usernamePrefix: '',
          groupsPrefix: '',
          required: [],
        },
      },
    ],
    broken: [],
    leftOut: [],
  })
  t.equal(read('io/v1', 'io/v1beta1').providers.length, 2)
  t.strictSame(read(/jwt:.*/s, ''), { providers: [], broken: [], leftOut: [] })
})

test('an unsupported field is reported with its line and disables its provider', async (t) => {
  for (const [part, by, line] of [
    [
      '        claim: sub\n',
      '        expression: claims.sub\n',
      'line 13: jwt[0].claimMappings.username.expression',
    ],
    [
      '      audienceMatch',
      '      egressSelectorType: cluster\n      audienceMatch',
      'line 7: jwt[0].issuer.egressSelectorType',
    ],
    [
      '      - claim: hd\n',
      '      - expression: claims.hd\n',
      'line 9: jwt[0].claimValidationRules[0].expression',
    ],
    [
      '    claimMappings:\n',
      '    userValidationRules:\n      - expression: user\n    claimMappings:\n',
      'line 11: jwt[0].userValidationRules',
    ],
    [
      '      username:\n',
      '      uid: { claim: sub }\n      username:\n',
      'line 12: jwt[0].claimMappings.uid',
    ],
    ['    claimMappings:\n', '    toString: x\n    claimMappings:\n', 'line 11: jwt[0].toString'],
  ] as const) {
    const { providers, broken, leftOut } = read(part, by)
    t.strictSame(broken, [], line)
    t.strictSame(leftOut, [`${line} is not supported, so this provider is left out`])
    t.strictSame(
      providers.map(({ issuer }) => issuer),
      ['http://127.0.0.1:9000/realms/main'],
      line,
    )
  }
  const { providers, leftOut } = read('jwt:', 'anonymous: { enabled: true }\njwt:')
  t.strictSame(leftOut, ['line 3: anonymous is not supported'])
  t.equal(providers.length, 2, 'the problem concerns no provider')
  const empty = '    userValidationRules: []\n    claimMappings:\n      uid:\n      username:\n'
  t.strictSame(
    read('    claimMappings:\n      username:\n', empty).leftOut,
    [],
    'no problem is reported',
  )
})

test('an invalid field is reported with its line', async (t) => {
  for (const [part, by, line] of [
    ['io/v1', 'io/v2', /^line 1: apiVersion must be one of apiserver.config.k8s.io\/v1, /],
    ['kind: A', 'kind: B', /^line 2: kind must be one of AuthenticationConfiguration$/],
    [/jwt:.*/s, 'jwt: 7\n', /^line 3: jwt must be a list$/],
    [
      'https://issuer.example',
      'http://issuer.example',
      /^line 5: jwt\[0\].issuer.url must be an https URL/,
    ],
    [
      'https://issuer.example',
      'https://issuer.example?a=b',
      /^line 5: jwt\[0\].issuer.url must be an https URL/,
    ],
    ['      url: https://issuer.example\n', '', /^line 4: jwt\[0\].issuer.url is required$/],
    ['[tollgate, web]', '[]', /^line 6: jwt\[0\].issuer.audiences needs at least 1 audience$/],
    ['[tollgate, web]', 'tollgate', /^line 6: jwt\[0\].issuer.audiences must be a list$/],
    [
      '[tollgate, web]',
      '[tollgate, 7]',
      /^line 6: jwt\[0\].issuer.audiences\[1\] must be a string, is a number: write it in quotes$/,
    ],
    ['MatchAny', 'MatchAll', /^line 7: jwt\[0\].issuer.audienceMatchPolicy must be one of/],
    [
      '        prefix: "oidc:"\n',
      '',
      /^line 12: jwt\[0\].claimMappings.username.prefix is required$/,
    ],
    ['        claim: sub\n', '', /^line 12: jwt\[0\].claimMappings.username.claim is required$/],
    [
      'http://127.0.0.1:9001/about',
      'http://192.0.2.1/about',
      /^line 20: jwt\[1\].issuer.discoveryURL must be an https URL$/,
    ],
    [
      '      audienceMatch',
      '      discoveryURL: http://127.0.0.1/about\n      audienceMatch',
      /^line 7: jwt\[0\].issuer.discoveryURL must be an https URL$/,
    ],
    [
      '      audienceMatch',
      '      certificateAuthority: none\n      audienceMatch',
      /^line 7: jwt\[0\].issuer.certificateAuthority must be a certificate in PEM$/,
    ],
    [
      /http:.*realms.main\n.*about/,
      'https://issuer.example',
      /^line 19: jwt\[1\].issuer.url names an issuer that another provider has$/,
    ],
    ['      url: https://issuer.example\n', '      url: [\n', /^line \d+: /],
    ['kind: A', 'kind: B\nkind: A', /^line 3: Map keys must be unique/],
  ] as const) {
    const { broken } = read(part, by)
    t.equal(broken.length, 1, `${broken}`)
    t.match(broken[0], line)
  }
  for (const text of ['', '7', '[]', 'a: &a [*a, *a]', '\u0000', '---\na: 1\n---\nb: 1\n']) {
    t.ok(parseAuthenticationConfiguration(text).broken.length > 0, JSON.stringify(text))
  }
  const { broken } = parseAuthenticationConfiguration(good, ['https://issuer.example'])
  t.match(broken, [/^line 5: .* names an issuer that another provider has$/])
})

root.test('an authority of its own must be a certificate', { skip: noOpenssl }, async (t) => {
  const { cert } = makeCertificate(t)
  const by = `      certificateAuthority: ${JSON.stringify(cert)}\n      audienceMatch`
  t.equal(read('      audienceMatch', by).providers[0]?.ca, cert)
})
