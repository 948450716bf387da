import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'
import { publicCodes } from '../src/formats/errors.ts'
import { settings } from '../src/settings/all-settings.ts'
import { removedSettings } from '../src/settings/removed-settings.ts'

const root = fileURLToPath(new URL('../', import.meta.url))
const folders = [
  '.',
  'docs',
  'docs/decisions',
  'envoy',
  'bench',
  'bench/history',
  'monitoring',
  'k8s',
  ...readdirSync(join(root, 'src')).map((room) => join('src', room)),
]
const documents = folders
  .filter((folder) => existsSync(join(root, folder)) && statSync(join(root, folder)).isDirectory())
  .flatMap((folder) => readdirSync(join(root, folder)).map((name) => join(folder, name)))
  .filter((path) => path.endsWith('.md'))
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8')

/**
 * Settings of the client, of npm scripts and of other programs, and codes that look like settings.
 */
const others = [
  ...[
    'TOLLGATE_TOKEN',
    'TOLLGATE_TOKEN_FILE',
    'TOLLGATE_URL',
    'TOLLGATE_KEY',
    'NODE_EXTRA_CA_CERTS',
    'CLAUDE_CODE_MAX_CONTEXT_TOKENS',
  ],
  ...['FUZZ_EXAMPLES', 'FUZZ_SECONDS', 'FUZZ_SEED', 'FUZZ_SERVERS', 'FUZZ_KEEP'],
  ...['FUZZ_RATIO', 'FUZZ_PLACES', 'CLUSTER_REGISTRY'],
  ...['KUBERNETES_SERVICE_HOST', 'KUBERNETES_SERVICE_PORT', 'GATEWAY_NAME'],
  ...['RUNBOOK_URL', 'IMAGE_REGISTRY', 'NPM_REGISTRY', 'NPM_SCOPE'],
  ...['NOT_SERVING', 'INVALID_ARGUMENT', 'O_APPEND', 'ERR_UNKNOWN_FILE_EXTENSION'],
]

/** A call that writes a line which is shown by default, and its code; a refusal's line has that of the refusal. */
const logCall = /\blog\.(info|warn|error|fatal)\([\s{]*(code(?:: '\w+'|: \w+)?(?=,|\s))?/g

/** Anchors as GitHub derives them from headings. */
function anchorsOf(text: string): Set<string> {
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading)
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )
}

test('links in documents lead to existing files and headings', async (t) => {
  let count = 0
  for (const path of documents) {
    for (const [, target = ''] of textOf(path).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      count += 1
      const [file = '', anchor] = target.split('#')
      const there = file === '' ? path : join(dirname(path), file)
      t.ok(existsSync(join(root, there)), `${path}: ${target}`)
      if (anchor === undefined || !statSync(join(root, there)).isFile()) continue
      t.ok(anchorsOf(textOf(there)).has(anchor), `${path}: ${target}`)
    }
  }
  t.ok(count > 50)
})

test('settings named in documents exist', async (t) => {
  const names = Object.values(settings).map(({ name }) => name)
  const known = new Set([...names, ...names.map((name) => `${name}_FILE`), ...others])
  let count = 0
  for (const path of documents) {
    if (path === 'CHANGELOG.md') continue
    for (const [, name = ''] of textOf(path).matchAll(
      /`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:=[^`]*)?`/g,
    )) {
      count += 1
      const isElsewhere =
        name.startsWith('OTEL_') || (path === 'docs/upgrade.md' && name in removedSettings)
      t.ok(
        isElsewhere || known.has(name),
        `${path}: ${name} is a setting, or one of "others" in this test`,
      )
    }
  }
  t.ok(count > 30)
})

test('each alert has its section in the runbook', async (t) => {
  const alerts = [...textOf('monitoring/rules.yaml').matchAll(/- alert: (\w+)/g)]
  const sections = [...textOf('docs/runbook.md').matchAll(/^### (\w+)$/gm)]
  t.strictSame(sections.map(([, name]) => name).sort(), alerts.map(([, name]) => name).sort())
  const links = [...textOf('monitoring/rules.yaml').matchAll(/runbook_url: (\S+)#(\S+)/g)]
  t.strictSame(
    links.map(([, , anchor]) => anchor),
    alerts.map(([, name = '']) => name.toLowerCase()),
  )
})

test('each line of the log has a code, which the page of logs explains', async (t) => {
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  const texts = sources
    .filter((name) => name.endsWith('.ts'))
    .map((name) => textOf(join('src', name)))
  const said = new Map<string, string>()
  for (const text of texts) {
    for (const [call, level = '', code] of text.matchAll(logCall)) {
      t.ok(code, `a code comes first: ${call}`)
      const [, literal] = /^code: '(\w+)'/.exec(code ?? '') ?? []
      if (literal !== undefined) said.set(literal, level)
    }
  }
  t.ok(said.size > 60)
  const rows = [...textOf('docs/logs.md').matchAll(/^\| `(\w+)` \| (info|warn|error) \| .+ \|$/gm)]
  const explained = new Map(rows.map(([, code = '', level = '']) => [code, level]))
  t.equal(explained.size, rows.length, 'once each')
  for (const [code, level] of said) t.equal(explained.get(code), level, `docs/logs.md: ${code}`)
  const refusals = [...textOf('src/formats/errors.ts').matchAll(/^ {4}([a-z_]+):\s+['"]/gm)]
  t.ok(refusals.length > 30)
  for (const [, code = ''] of refusals) t.notOk(explained.has(code), `${code} is a refusal's`)
  // Codes that a call gets as a value.
  for (const code of explained.keys()) {
    if (said.has(code)) continue
    t.ok(
      texts.some((text) => text.includes(`'${code}'`)),
      `${code} is logged`,
    )
  }
})

test('each decision is in the index, and says when to reconsider it', async (t) => {
  const index = textOf('docs/decisions/README.md')
  const records = readdirSync(join(root, 'docs/decisions')).filter((name) => /^\d/.test(name))
  for (const name of records) {
    const text = textOf(join('docs/decisions', name))
    const [, number = '', title = ''] = /^# (\d+)\. (.+)$/m.exec(text) ?? []
    t.match(index, `| [${number}](${name}) | ${title} |`)
    t.match(text, /^## Reconsider when$/m, name)
  }
  t.ok(records.length > 20)
})

test('comments cite existing sections of the contract', async (t) => {
  const contract = textOf('docs/contract.md')
  const sections = new Set([...contract.matchAll(/^#+ ([\d.]+?)\.? /gm)].map(([, name]) => name))
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  let count = 0
  for (const path of sources.filter((name) => name.endsWith('.ts'))) {
    const text = textOf(join('src', path)).replace(/\n\s*(?:\*|\/\/)?\s*/g, ' ')
    for (const [, cited = ''] of text.matchAll(/\(contract, ([\d., and]+)\)/g)) {
      for (const section of cited.split(/, | and /)) {
        count += 1
        t.ok(sections.has(section), `${path}: contract, ${section}`)
      }
    }
  }
  t.ok(count > 40)
})

test('each code of an error of Envoy is documented for callers', async (t) => {
  const known = textOf('docs/use.md')
  const codes = textOf('envoy/bootstrap.yaml').matchAll(/\bcode: ([a-z_]+) \}/g)
  const unknown = [...codes].filter(([, code]) => !known.includes(`\`${code}\``))
  t.strictSame([...new Set(unknown.map(([, code]) => code))], [])
})

test('each code of a refusal is documented for callers', async (t) => {
  const known = textOf('docs/use.md') + textOf('docs/contract.md')
  t.strictSame(
    publicCodes().filter((code) => !known.includes(`\`${code}\``)),
    [],
  )
})
