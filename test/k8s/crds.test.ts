import { readdirSync, readFileSync } from 'node:fs'
import { Ajv } from 'ajv'
import root, { type Test, test } from 'tap'
import { renderResources } from '../../docs/render-resources.ts'
import { kinds, renderCrds, toCrd } from '../../k8s/write-crds.ts'
import type { FieldProblem } from '../../src/formats/fields.ts'
import type { Schema } from '../../src/formats/schema.ts'
import { parseDuration, parseWindow } from '../../src/formats/time.ts'
import { specSchemas } from '../../src/kinds/resource-schemas.ts'
import { createClient, KubeError } from '../../src/kubernetes/client.ts'
import { parseResource } from '../../src/models/rules/reading/parse-resource.ts'
import { accessPolicy, modelRef, subscription, type WrittenDocument } from '../support/documents.ts'
import { installCrds, noCrdServer, startCrdServer } from '../support/kubernetes/crd-server.ts'
import { generateDocument, originals } from '../support/kubernetes/generated-documents.ts'
import { createRandom } from '../support/random.ts'

const documents = 2_000

/** Documents that the reader and the API server judge differently, by name, and why. */
const exceptions: Readonly<
  Record<string, { readonly of: (document: WrittenDocument) => boolean; readonly why: string }>
> = {
  namespace: {
    of: ({ kind, metadata: { namespace } }) =>
      kind === 'ModelRef' ? namespace === 'v1' : namespace !== 'models-as-a-service',
    why: 'CEL rules cannot read metadata.namespace; other namespaces are not watched anyway',
  },
  'unknown field': {
    of: ({ kind, spec }) =>
      [spec.admission, spec.calendar].some((closed) => 'more' in Object(closed)) ||
      (kind !== 'Subscription' && JSON.stringify(spec.limits ?? '').includes('"more"')),
    why: 'the API server leaves it out, and the client that sent it gets a warning',
  },
  price: {
    of: (document) => problemsOf(document).some(({ path }) => path.includes('billingRate')),
    why: 'a price that is none takes nothing out of force',
  },
  'time zone': {
    of: (document) => problemsOf(document).some(({ path }) => path.includes('timeZone')),
    why: 'the API server has its own list of zones, and cannot be asked for it',
  },
  'limited models': {
    of: (document) => problemsOf(document).some(({ path }) => path.includes('models')),
    why: 'a CEL rule that compares each of them with spec.modelRefs would cost too much',
  },
  URL: {
    of: ({ spec }) => /"https?:\/\/[^"]*(\[|xn--|\.0x)/.test(JSON.stringify(spec)),
    why: 'a pattern cannot check IPv6 addresses and Punycode completely',
  },
}

/** Of a Tenant with problems the limits may still be in force. */
function isAccepted(document: unknown): boolean {
  return 'resource' in parseResource(document) && problemsOf(document).every(({ isMild }) => isMild)
}

function problemsOf(document: unknown): readonly FieldProblem[] {
  const result = parseResource(document)
  return 'problems' in result ? result.problems : []
}

test('the CRDs and docs/resources.md match the schemas', async (t) => {
  const folder = new URL('../../k8s/crds/', import.meta.url)
  const rendered = renderCrds()
  t.strictSame([...rendered.keys()].sort(), readdirSync(folder).sort(), 'run: npm run crds')
  for (const [name, text] of rendered) {
    t.equal(text, readFileSync(new URL(name, folder), 'utf8'), `${name}, or run: npm run crds`)
  }
  const page = readFileSync(new URL('../../docs/resources.md', import.meta.url), 'utf8')
  t.equal(renderResources(), page, 'docs/resources.md, or run: npm run crds')
})

interface WrittenLimit {
  readonly of?: unknown
  readonly limit?: unknown
}

/**
 * The CEL rules as functions, since there is no CEL here; a real API server evaluates them in
 * another test.
 */
const ruleInCode: readonly (readonly [RegExp, (self: never, cel: string) => boolean])[] = [
  [/^duration\(self\) <= duration\('8784h'\)$/, (self: string) => parseWindow(self) !== undefined],
  [
    /^self in \['day', 'week', 'month'\] \|\| duration\(self\) <= duration\('8784h'\)$/,
    (self: string) => ['day', 'week', 'month'].includes(self) || parseWindow(self) !== undefined,
  ],
  [
    /^!\(has\(self\.of\) .* type\(self\.limit\) == string$/,
    ({ of, limit }: WrittenLimit) => of !== 'cost' || typeof limit === 'string',
  ],
  [
    /^\(has\(self\.of\) .* type\(self\.limit\) == int$/,
    ({ of, limit }: WrittenLimit) => of === 'cost' || typeof limit === 'number',
  ],
  [
    /^\(has\(self\.of\) .* \|\| has\(self\.window\)$/,
    ({ of, ...rest }: WrittenLimit) => of === 'concurrency' || 'window' in rest,
  ],
  [
    /^!\(has\(self\.of\) .* \|\| !has\(self\.window\)$/,
    ({ of, ...rest }: WrittenLimit) => of !== 'concurrency' || !('window' in rest),
  ],
  [
    /^has\(self\.perToken\) \|\|/,
    (self: object) => 'perToken' in self || ('perInputToken' in self && 'perOutputToken' in self),
  ],
  [
    /^double\(int\(self \* 1000\.0 \+ 0\.5\)\) \/ 1000\.0 == self$/,
    (self: number) => Math.trunc(self * 1_000 + 0.5) / 1_000 === self,
  ],
  [
    /^duration\(self\) >= duration\('1ms'\)/,
    (self: string, cel) => {
      const longest = parseDuration(/<= duration\('(\w+)'\)/.exec(cel)?.[1] ?? '') ?? 0
      const ms = millisecondsOf(self)
      return ms >= 1 && ms <= longest
    },
  ],
  [
    /^duration\(self\) in \[/,
    (self: string, cel) =>
      [...cel.matchAll(/duration\('(\w+)'\)/g)].some(
        ([, each = '']) => parseDuration(each) === millisecondsOf(self),
      ),
  ],
  [
    /^\(has\(self\.users\)/,
    ({ users = [], groups = [] }: { users?: []; groups?: [] }) => users.length + groups.length > 0,
  ],
  [
    /^has\(self\.file\) != has\(self\.secretRef\)$/,
    (self: object) => 'file' in self !== 'secretRef' in self,
  ],
  [
    /^!has\(self\.charge\)/,
    ({ mode, charge = 'end' }: { mode?: string; charge?: string }) =>
      charge === 'end' || mode === 'reserve',
  ],
  [
    /^size\(self\.metadata\.name\) <= 63$/,
    (self: WrittenDocument) => String(self.metadata.name).length <= 63,
  ],
  [
    /^self\.metadata\.name == 'default-tenant'$/,
    (self: WrittenDocument) => self.metadata.name === 'default-tenant',
  ],
  [
    /^!self(\.lowerAscii\(\))?\.matches\('/,
    (self: string, cel) => {
      const text = /matches\('(.*)'\)$/.exec(cel)?.[1]?.replaceAll('\\\\', '\\') ?? ''
      return !new RegExp(text).test(cel.includes('lowerAscii') ? self.toLowerCase() : self)
    },
  ],
]

function millisecondsOf(text: string): number {
  return Number(/^(\d+)ms$/.exec(text)?.[1] ?? parseDuration(text) ?? 0)
}

/** A validator for the CRD of each kind. */
function createValidators(): ReadonlyMap<string, (document: unknown) => boolean> {
  const ajv = new Ajv({ strict: false, validateFormats: false })
  ajv.addKeyword({
    keyword: 'x-kubernetes-validations',
    validate: (rules: readonly { rule: string }[], self: unknown) =>
      rules.every(({ rule }) => {
        const [, holds] = ruleInCode.find(([cel]) => cel.test(rule)) ?? []
        if (holds === undefined) throw new Error(`add the rule ${rule} to ruleInCode`)
        try {
          return holds(self as never, rule)
        } catch {
          // The value has another type than the rule expects.
          return false
        }
      }),
  })
  ajv.addKeyword({
    keyword: 'x-kubernetes-list-map-keys',
    type: 'array',
    validate: ([key = '']: readonly string[], self: readonly Record<string, unknown>[]) =>
      new Set(self.map((item) => item?.[key])).size === self.length,
  })
  return new Map(
    kinds.map((kind) => {
      const crd = toCrd(kind) as { spec: { versions: { schema: { openAPIV3Schema: object } }[] } }
      const [version] = crd.spec.versions
      return [kind.kind, ajv.compile(version?.schema.openAPIV3Schema ?? {})]
    }),
  )
}

/** Removes null fields, as the API server does. */
function withoutNulls(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(withoutNulls)
  const fields = Object.entries(value).filter(([, inside]) => inside !== null)
  return Object.fromEntries(fields.map(([name, inside]) => [name, withoutNulls(inside)]))
}

/** The fields of a schema that have none below them, as paths. */
function leavesOf({ properties, items }: Schema, path: string): readonly string[] {
  if (items !== undefined) return leavesOf(items, `${path}[]`)
  if (properties === undefined) return [path]
  return Object.entries(properties).flatMap(([name, field]) => leavesOf(field, `${path}.${name}`))
}

/** The paths of all values below a value, with `[]` for each item of a list. */
function pathsIn(value: unknown, path: string): readonly string[] {
  if (typeof value !== 'object' || value === null) return [path]
  if (Array.isArray(value)) return value.flatMap((item) => pathsIn(item, `${path}[]`))
  const below = Object.entries(value).flatMap(([name, field]) => pathsIn(field, `${path}.${name}`))
  return [path, ...below]
}

test('the originals of generated documents have every field', async (t) => {
  for (const [kind, spec] of Object.entries(specSchemas)) {
    const ofKind = originals.filter((document) => document.kind === kind)
    const written = new Set(ofKind.flatMap((document) => pathsIn(document.spec, 'spec')))
    for (const leaf of leavesOf(spec, 'spec')) {
      t.ok(
        written.has(leaf),
        `${kind} ${leaf} is in test/support/kubernetes/generated-documents.ts`,
      )
    }
  }
})

/** Compares the reader with another validator on generated documents. */
async function compare(
  t: Test,
  accepts: (document: WrittenDocument) => boolean | Promise<boolean>,
): Promise<void> {
  const random = createRandom(Number(process.env.SEED ?? 15))
  t.comment(`SEED=${random.seed}`)
  let accepted = 0
  let excepted = 0
  for (let i = 0; i < documents; i += 1) {
    const document = generateDocument(random)
    const ours = isAccepted(document)
    if (ours) accepted += 1
    if (ours === (await accepts(document))) continue
    if (Object.values(exceptions).some(({ of }) => of(document))) excepted += 1
    else t.fail(`only the ${ours ? 'reader' : 'CRD'} accepts`, { document })
  }
  t.comment(`${accepted} of ${documents} accepted, ${excepted} exceptions`)
  t.ok(
    accepted > documents / 5 && accepted < (documents * 4) / 5,
    'some documents are accepted and some are not',
  )
  t.ok(excepted < documents / 50, 'exceptions are few')
}

test('the reader and the schema accept the same documents', async (t) => {
  const validators = createValidators()
  await compare(t, (document) => validators.get(document.kind)?.(withoutNulls(document)) ?? false)
})

root.test(
  'the reader and the API server accept the same documents',
  { skip: noCrdServer },
  async (t) => {
    const access = await startCrdServer(t)
    const client = createClient(access, { timeoutMs: 30_000 })
    await installCrds(access, kinds.map(toCrd))
    const plurals = new Map(kinds.map(({ kind, plural }) => [kind, plural]))
    const isStored = async (document: WrittenDocument, strict = false): Promise<boolean> => {
      const { namespace } = document.metadata
      const at = `/apis/tollgate.dev/v1alpha1/namespaces/${namespace}/${plurals.get(document.kind)}`
      const path = `${at}?dryRun=All&fieldValidation=${strict ? 'Strict' : 'Ignore'}`
      try {
        await client.send({ method: 'POST', path, body: { ...document } })
        return true
      } catch (error) {
        if (error instanceof KubeError && [400, 422].includes(error.status)) return false
        throw error
      }
    }
    await t.test('generated documents', (t) => compare(t, isStored))
    await t.test('the exceptions still differ', async (t) => {
      const open = accessPolicy('open', ['llm/small'], { groups: ['a'] })
      const inDefault = { ...open.metadata, namespace: 'default' }
      const elsewhere = { ...open, metadata: inDefault }
      t.strictSame([isAccepted(elsewhere), await isStored(elsewhere)], [false, true], 'namespace')
      const noAddress = modelRef('small', { backendUrl: 'http://[:::1]' })
      t.strictSame([isAccepted(noAddress), await isStored(noAddress)], [false, true], 'URL')
    })
    await t.test('the test documents pass strict field validation', async (t) => {
      const paid = subscription('a', { groups: ['a'] }, { 'llm/small': [[100, '1m']] })
      const placed = { ...paid, metadata: { ...paid.metadata, namespace: 'models-as-a-service' } }
      t.ok(await isStored(placed, true))
      t.notOk(await isStored({ ...placed, spec: { ...placed.spec, more: 1 } }, true))
    })
  },
)
