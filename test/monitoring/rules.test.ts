import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'tap'
import { parse } from 'yaml'
import { toPrometheusRule } from '../../monitoring/write-prometheus-rule.ts'

const folder = new URL('../../monitoring/', import.meta.url)
const read = (name: string): string => readFileSync(new URL(name, folder), 'utf8')

interface Rule {
  readonly record?: string
  readonly alert?: string
  readonly expr: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

const groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[] = parse(
  read('rules.yaml'),
).groups
const rules = groups.flatMap((group) => group.rules)
const alerts = rules.filter(({ alert }) => alert !== undefined)
const skip =
  spawnSync('promtool', ['--version']).error !== undefined &&
  'promtool is not on PATH (Debian: prometheus)'

test('each alert has a description and a link to the runbook', async (t) => {
  t.ok(alerts.length >= 25)
  for (const { alert = '', labels, annotations } of alerts) {
    t.match(labels?.severity, /^(critical|warning|info)$/, alert)
    t.match(annotations?.summary, /\.$/, alert)
    t.match(annotations?.description, /\.$/, alert)
    t.equal(
      annotations?.runbook_url,
      `https://tollgate.example/docs/runbook.md#${alert.toLowerCase()}`,
    )
  }
})

test('the PrometheusRule has the same rules', async (t) => {
  const written = read('prometheus-rule.yaml')
  t.equal(written, toPrometheusRule(read('rules.yaml')), 'run: npm run monitoring')
  t.strictSame(parse(written).spec.groups, groups)
})

test('each alert has a test', async (t) => {
  const { tests } = parse(read('rules.test.yaml')) as { tests: readonly { name: string }[] }
  t.strictSame(
    tests.map(({ name }) => name),
    alerts.map(({ alert }) => alert),
  )
})

test('each metric of a rule is documented', async (t) => {
  const documented = readFileSync(new URL('../docs/metrics.md', folder), 'utf8')
  for (const { expr } of rules) {
    for (const [name] of expr.matchAll(/\b(?:tollgate|authorized|limited|nodejs|process)_\w+/g)) {
      t.match(documented, `\`${name.replace(/_(bucket|count|sum)$/, '')}`, name)
    }
  }
})

test('the rules are valid and their tests pass', { skip }, async (t) => {
  for (const [command, file] of [
    ['check', 'rules.yaml'],
    ['test', 'rules.test.yaml'],
  ] as const) {
    const { status, stdout, stderr } = spawnSync('promtool', [command, 'rules', file], {
      cwd: folder,
      encoding: 'utf8',
    })
    t.equal(status, 0, stdout + stderr)
  }
})
