import { isUtf8 } from 'node:buffer'
import { test } from 'tap'
import {
  type FileContent,
  type FileText,
  maxSliceText,
  parseFileInSteps,
  parseObjectResource,
} from '../../../src/models/sources/documents.ts'
import { toEnd } from '../../support/to-end.ts'

function readDocuments(file: string, text: string): FileContent {
  return toEnd(parseFileInSteps(file, { text, isUtf8: true }))
}

const model = `apiVersion: tollgate.dev/v1alpha1
kind: ModelRef
metadata:
  name: small
  namespace: llm
spec:
  modelRef:
    kind: LLMInferenceService
    name: small
`

/** The names and problems in a text; problems as `line severity message`. */
function read(text: string): { names: string[]; problems: string[] } {
  const { resources, problems } = readDocuments('f.yaml', text)
  return {
    names: resources.map(({ resource }) => resource.metadata.name),
    problems: problems.map(({ line, severity, message }) => `${line} ${severity} ${message}`),
  }
}

test('a file may hold several documents', async (t) => {
  const text = `# a comment\n---\n${model}---\n${model.replaceAll('small', 'large')}---\n---\n`
  t.strictSame(read(text), { names: ['small', 'large'], problems: [] })
  t.strictSame(read(JSON.stringify({ apiVersion: 'v1', kind: 'Service' })), {
    names: [],
    problems: ['1 warning v1 Service is not one of our kinds'],
  })
  const [apiVersion, kind] = ['tollgate.dev/v1', 'AccessPolicy']
  t.strictSame(read(JSON.stringify({ apiVersion, kind, metadata: { name: 'open' } })), {
    names: [],
    problems: ['1 error AccessPolicy open: apiVersion must be tollgate.dev/v1alpha1'],
  })
})

test('an empty file has no resources and no problems', async (t) => {
  for (const text of [
    '',
    '\n\n',
    '# only a comment\n',
    '---\n---\n',
    '---',
    '\ufeff',
    'null',
    '~',
  ]) {
    t.strictSame(read(text), { names: [], problems: [] }, JSON.stringify(text))
  }
})

test('a problem has the line of its field', async (t) => {
  const text = `# head
apiVersion: tollgate.dev/v1alpha1
kind: Subscription
metadata:
  name: team-a
spec:
  owner: {users: [ada]}
  modelRefs:
    - namespace: llm
      name: small
      tokenRateLimits:
        - limit: 0
          window: 1m
        - limit: 5
          window: 0m
        - limit: 5
  priority: high
`
  t.strictSame(read(text), {
    names: [],
    problems: [
      '12 error Subscription team-a: spec.modelRefs[0].tokenRateLimits[0].limit must be a whole number from 1 to 1000000000',
      '15 error Subscription team-a: spec.modelRefs[0].tokenRateLimits[1].window must be 1 to 9999 and s, m or h, like 1m, and at most 8784h',
      '16 error Subscription team-a: spec.modelRefs[0].tokenRateLimits[2].window is required',
      '17 error Subscription team-a: spec.priority must be a whole number from -2147483648 to 2147483647',
    ],
  })
})

test('reports invalid YAML and reads the other documents', async (t) => {
  for (const [broken, line, message] of [
    ['a: [', 2, /flow collection|sequence/i],
    ['a:\n\t- b', 2, /Tabs are not allowed/],
    ['a: 1\na: 2', 2, /Map keys must be unique, and a is there twice$/],
    ['kind: a\nb: 1\nkind: c', 3, /kind is there twice; a line --- separates resources$/],
    ['a: { limit: 2,000,000 }', 1, /000 is there twice; write numbers without separators$/],
    ['a: *none', 1, /alias|anchor/i],
    ['a: b: c', 1, /Nested mappings .*; check the indentation, and quote a text that/],
  ] as const) {
    const { names, problems } = read(`${broken}\n---\n${model}`)
    t.strictSame(names, ['small'], broken)
    t.equal(problems.length, 1, broken)
    t.match(problems[0], new RegExp(`^${line} error not valid YAML: `), broken)
    t.match(problems[0], message)
    t.notMatch(problems[0], /\n|at line/, 'one line, without the position in the YAML')
  }
})

test('reports the line of a document that is not a resource', async (t) => {
  for (const [text, problem] of [
    ['hello', '1 error must be an object'],
    ['- a', '1 error must be an object'],
    ['5', '1 error must be an object'],
    ['{}', '1 error apiVersion is required'],
    ['# x\nkind: ModelRef', '2 error ModelRef: apiVersion is required'],
    [
      'apiVersion: 1\nkind: {}',
      '1 error apiVersion must be a string, is a number: write it in quotes',
    ],
  ] as const) {
    t.equal(read(text).problems[0], problem, text)
  }
})

test('reads aliases, but limits their expansion', async (t) => {
  const aliased = model
    .replace('name: small', 'name: &name small')
    .replace(/name: small\n$/, 'name: *name\n')
  t.strictSame(read(aliased), { names: ['small'], problems: [] })
  const levels = 'abcdefghij'.split('').map((name, level) => {
    const above = level === 0 ? 'x' : `*${'abcdefghij'[level - 1]}`
    return `${name}: &${name} [${Array(9).fill(above).join(',')}]`
  })
  const startedAt = process.cpuUsage()
  const { names, problems } = read(`${levels.join('\n')}\n---\n${model}`)
  t.strictSame(names, ['small'])
  t.match(problems, [/error not valid YAML: .*alias/i])
  t.ok(process.cpuUsage(startedAt).user < 5_000_000)
})

test('reports a document that is nested too deeply', async (t) => {
  for (const deep of [
    '['.repeat(50_000),
    '- '.repeat(5_000),
    '{a: '.repeat(20_000),
    `${'['.repeat(3_000)}${']'.repeat(3_000)}`,
  ]) {
    const { problems } = read(deep)
    t.match(problems, [/error /], deep.slice(0, 8))
  }
})

test('a document that breaks its reader is not in force, and breaks no other', async (t) => {
  const broken = (kind: string, spec: object) =>
    parseObjectResource({
      apiVersion: 'tollgate.dev/v1alpha1',
      kind,
      metadata: { name: 'default-tenant' },
      spec: Object.defineProperty(spec, 'calendar', {
        enumerable: true,
        get() {
          throw new RangeError('too deep')
        },
      }),
    })
  const paid = broken('Subscription', { modelRefs: [{ namespace: 'llm', name: 'small' }] })
  t.match(paid, {
    resource: undefined,
    refused: { modelKeys: ['llm/small'], message: 'cannot be read: too deep' },
    problems: [
      { severity: 'error', message: 'Subscription default-tenant: cannot be read: too deep' },
    ],
  })
  const tenant = broken('Tenant', { limits: [{ name: 'all' }] })
  t.match(tenant, { resource: { unreadable: [{ message: 'cannot be read' }] } })
})

test('merge keys are merged', async (t) => {
  const text = `apiVersion: tollgate.dev/v1alpha1
kind: Subscription
metadata: {name: team-a}
spec:
  owner: {users: [ada]}
  modelRefs:
    - &small
      namespace: llm
      name: small
      tokenRateLimits: [{limit: 5, window: 1m}]
      concurrency: 3
    - <<: *small
      name: large
    - <<: [{concurency: 7}, *small]
      name: other
`
  const [written] = readDocuments('f.yaml', text).resources
  t.match(written?.resource, {
    modelRefs: [
      { name: 'small', concurrency: 3 },
      { name: 'large', concurrency: 3 },
    ],
    outOfForce: [{ name: 'other' }],
  })
  t.match(read(text.replace('[{concurency: 7}, *small]', 'text')).problems, [
    /error not valid YAML: << must name an object/,
  ])
})

test('an anchor may be used often, and neither loops nor expansion affect other documents', async (t) => {
  const entry = (name: string, limits: string) =>
    `    - {namespace: llm, name: ${name}, tokenRateLimits: ${limits}}\n`
  const head =
    'apiVersion: tollgate.dev/v1alpha1\nkind: Subscription\nmetadata: {name: team-a}\nspec:\n'
  const aliases = Array.from({ length: 500 }, (_, n) => entry(`m${n}`, '*small')).join('')
  const shared = `${head}  owner: {users: [ada]}\n  modelRefs:\n${entry('small', '&small [{limit: 5, window: 1m}]')}${aliases}`
  t.strictSame(read(shared), { names: ['team-a'], problems: [] })

  const doubled = Array.from({ length: 40 }, (_, n) => `- &d${n + 1} [*d${n}, *d${n}]\n`).join('')
  const many = Array.from({ length: 6_000 }, (_, n) => `- &a${n} x\n- *a${n}\n`).join('')
  for (const [text, problem] of [
    ['&list {kind: List, items: [*list]}\n', /aliases add more than 100000 values/],
    [`- &d0 [x]\n${doubled}`, /aliases add more than 100000 values/],
    [many, /more than 10000 anchors and aliases/],
    ['? {a: 1, a: 2}\n: x\n', /must be unique/],
  ] as const) {
    const { names, problems } = read(`${model}---\n${text}`)
    t.strictSame(names, ['small'])
    t.match(problems, [problem])
    t.equal(problems.length, 1)
  }
})

test('the items of a list are documents', async (t) => {
  const indented = model.replaceAll(/^/gm, '    ').replace('   ', '  -')
  const large = indented.replaceAll('small', 'large').replace('modelRef:', 'modelReff:')
  const text = `apiVersion: v1\nkind: List\nmetadata: {}\nitems:\n${indented.trimEnd()}\n${large}`
  t.strictSame(read(text), {
    names: ['small'],
    problems: [
      '19 error ModelRef large: spec.modelRef is required',
      '20 warning ModelRef large: spec.modelReff is not known here (did you mean modelRef?)',
    ],
  })
  const typed = { apiVersion: 'tollgate.dev/v1alpha1', kind: 'ModelRefList' }
  const item = { metadata: { name: 'a' }, spec: { modelRef: { kind: 'ExternalModel', name: 'a' } } }
  t.strictSame(read(JSON.stringify({ ...typed, items: [item] })), { names: ['a'], problems: [] })
  const list = { apiVersion: 'v1', kind: 'List' }
  const nested = { ...list, items: [{ ...list, items: [{ ...typed, items: [item] }] }, null, 5] }
  t.strictSame(read(JSON.stringify(nested)).names, ['a'])
  t.strictSame(read(JSON.stringify({ ...list, items: [] })), { names: [], problems: [] })
  t.strictSame(read(JSON.stringify({ ...list, kind: 'list', items: [item] })).problems, [
    '1 error v1 list is not one of our kinds',
  ])
  const foreign = { apiVersion: 'example.com/v1', kind: 'AllowListEntry' }
  t.strictSame(read(JSON.stringify(foreign)).problems, [
    '1 warning example.com/v1 AllowListEntry is not one of our kinds',
  ])
})

test('many aliases are parsed elsewhere, as long texts are', async (t) => {
  const aliases = (count: number) => `a: &a x\nb: [${'*a, '.repeat(count)}]\n`
  const taken: number[] = []
  const anchors = `a: &a x\nb: [${'&b ,'.repeat(5_000)}${'*a, '.repeat(500)}]\n`
  const long = `# ${'x'.repeat(maxSliceText)}`
  for (const text of [model, aliases(100), aliases(5_000), anchors, long]) {
    const elsewhere = async (part: string) => {
      taken.push(part.length)
      return []
    }
    for (const each of parseFileInSteps('f.yaml', { text, isUtf8: true }, undefined, elsewhere))
      await each
  }
  t.strictSame(
    taken,
    [aliases(5_000), anchors, long].map(({ length }) => length),
  )
})

test('text that is not UTF-8 breaks only its document', async (t) => {
  const latin = Buffer.from(`${model}---\n${model.replaceAll('small', 'l\xe4rge')}---\n`, 'latin1')
  const steps = parseFileInSteps('f.yaml', { text: latin.toString('utf8'), isUtf8: false })
  const { resources, problems } = toEnd(steps)
  t.strictSame(
    resources.map(({ resource }) => resource.metadata.name),
    ['small'],
  )
  t.match(problems, [{ line: 14, severity: 'error', message: /is not UTF-8/ }])
  t.equal(problems.length, 1)
})

test('limits of the Tenant in a document of no kind close, however it is written', async (t) => {
  const tenant = `apiVersion: tollgate.dev/v1alpha1
kind: Tenant
metadata: {name: default-tenant}
spec:
  limits: [{name: daily, of: tokens, limit: 1000, window: 24h}]
`
  const states = (text: FileText): unknown[] =>
    toEnd(parseFileInSteps('f.yaml', text)).resources.map(({ resource }) =>
      resource.kind === 'Tenant' && resource.unreadable !== undefined ? 'closed' : resource.kind,
    )
  const item = tenant.trimEnd().replaceAll('\n', '\n  ')
  for (const text of [
    `- ${item}`,
    `items:\n- ${item}`,
    `kind: list\nitems:\n- ${item}`,
    `apiVersion: v1\nkind: list\nitems:\n- ${item}`,
    `apiVersion: v1\nkind: List\nItems:\n- ${item}`,
    `apiVersion: v1\nkind: List\nitems:\n  one:\n    ${tenant.trimEnd().replaceAll('\n', '\n    ')}`,
    `apiVersion: tollgate.dev/v1alpha1\nkind: tenantlist\nitems:\n- ${item}`,
    tenant.replace('kind', 'Kind'),
    tenant.replace('Tenant', '!!str Tenant\nbroken: ['),
    tenant.replace(/spec:.*/s, 'spec: !!omap [limits: [{name: daily}]]'),
  ]) {
    t.strictSame(states({ text, isUtf8: true }), ['closed'], text)
  }
  const utf16 = Buffer.from(tenant, 'utf16le')
  const marked = Buffer.from(`\ufeff${tenant.replace(/^.*\n/, '')}`, 'utf16le')
  for (const bytes of [utf16, Buffer.from(utf16).swap16(), marked, Buffer.from(marked).swap16()]) {
    const text = { text: bytes.toString('utf8'), isUtf8: isUtf8(bytes) }
    t.strictSame(states(text), ['closed'], JSON.stringify(text))
  }
  const others = { text: `- ${item.replace('limits', 'telemetry')}`, isUtf8: true }
  t.strictSame(states(others), [], 'no limits')
})

test('time is linear in keys, tags and problems', async (t) => {
  const head = 'apiVersion: tollgate.dev/v1alpha1\nkind: AccessPolicy\nmetadata: {name: a}\nspec:\n'
  const many = (count: number, part: (n: number) => string): string =>
    Array.from({ length: count }, (_, n) => part(n)).join('')
  const labels = `${head}  meteringMetadata:\n    labels:\n`
  for (const [name, textOf] of [
    ['labels', (count) => labels + many(count, (n) => `      k${n}: v\n`)],
    ['labels that are wrong', (count) => labels + many(count, (n) => `      k${n}: 5\n`)],
    ['unknown fields', (count) => head + many(count, (n) => `  k${n}: 5\n`)],
    ['tags', (count) => `${head}  x: [${many(count, () => '!a b,')}]\n`],
    ['merges', (count) => `${head}  x:\n${many(count, () => '  - <<: {a: 1}\n')}`],
  ] as const satisfies readonly (readonly [string, (count: number) => string])[]) {
    const cost = (count: number): number => {
      const text = textOf(count)
      const since = process.cpuUsage()
      t.ok(read(text).problems.length <= 30)
      return process.cpuUsage(since).user
    }
    cost(1_000)
    const [few, lots] = [cost(2_000), cost(20_000)]
    t.ok(lots < 40 * few, `${name}: ${few} and ${lots} µs`)
  }
})

test('reads a hundred thousand blank lines', async (t) => {
  const blank = '\n'.repeat(100_000)
  t.strictSame(read(`${blank}---\n${model}---\n${blank} \n---\nx`), {
    names: ['small'],
    problems: ['200014 error must be an object'],
  })
})

test('__proto__ does not change a prototype', async (t) => {
  const text = `${model}  modelIds: []\n__proto__:\n  polluted: true\n`
  t.strictSame(read(text).names, ['small'])
  t.notOk('polluted' in {})
})

test('finds the lines of a resource’s fields', async (t) => {
  const [written] = readDocuments('f.yaml', `---\n${model}`).resources
  for (const [path, line] of [
    [[], 2],
    [['kind'], 3],
    [['metadata', 'name'], 5],
    [['spec', 'modelRef', 'name'], 10],
    [['spec', 'none', 3, 'deeper'], 8],
    [['none'], 2],
  ] as const) {
    t.equal(written?.lineOf(path), line, path.join('.'))
  }
})

test('an unclosed quote affects only its document', async (t) => {
  const broken = model.replace('name: small', 'name: "small')
  const text = `${broken}---\n${model}---\n# last\n${model.replaceAll('small', 'large')}`
  const { names, problems } = read(text)
  t.strictSame(names, ['small', 'large'])
  t.match(problems, [/^\d+ error not valid YAML: Missing closing "quote/])
})

test('a directive belongs to its document', async (t) => {
  const text = `%YAML 1.2\n# why\n---\n${model}...\n%YAML 1.2\n---\n${model.replace('llm', '5')}`
  t.strictSame(read(text).names, ['small'])
  t.match(read(text).problems, [/^20 error ModelRef small: metadata.namespace must be a string/])
})

test('the parser writes no warnings of its own', async (t) => {
  const warnings: string[] = []
  const listen = (warning: Error): void => void warnings.push(warning.message)
  process.on('warning', listen)
  // A template that nobody rendered: a map is the key of another one.
  read(`${model}  backendUrl: {{ .Values.url }}\n`)
  await new Promise(setImmediate)
  process.off('warning', listen)
  t.strictSame(warnings, [])
})
