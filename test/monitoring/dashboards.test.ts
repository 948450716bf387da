import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import root from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { startGateway } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { skipPrometheus, startPrometheus } from '../support/prometheus.ts'

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly gridPos: {
    readonly x: number
    readonly y: number
    readonly w: number
    readonly h: number
  }
  readonly datasource?: { readonly uid: string }
  readonly targets?: readonly {
    readonly expr: string
    readonly datasource: { readonly uid: string }
  }[]
}

interface Dashboard {
  readonly uid: string
  readonly title: string
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly definition?: string }[]
  }
  readonly panels: readonly Panel[]
}

const folder = new URL('../../monitoring/', import.meta.url)
const dashboards = readdirSync(folder)
  .filter((name) => name.endsWith('.dashboard.json'))
  .map((name): Dashboard => JSON.parse(readFileSync(new URL(name, folder), 'utf8')))

/** Variables that Grafana itself defines. */
const builtIn = ['__rate_interval', '__range']

/** Grafana does not run here; these are the mistakes on which its import would fail. */
root.test('dashboards refer only to what exists', async (t) => {
  t.equal(dashboards.length, 3)
  t.equal(new Set(dashboards.map(({ uid }) => uid)).size, 3)
  const documented = readFileSync(new URL('../docs/metrics.md', folder), 'utf8')
  for (const dashboard of dashboards) {
    const { panels, templating, title } = dashboard
    const names = templating.list.map(({ name }) => name)
    t.ok(names.includes('datasource'), title)
    for (const [, used = ''] of JSON.stringify(dashboard).matchAll(/\$\{?(\w+)\}?/g)) {
      t.ok(names.includes(used) || builtIn.includes(used), `${title}: $${used}`)
    }
    for (const name of names) {
      t.match(JSON.stringify(panels), new RegExp(`\\$\\{?${name}\\b`), `${title}: ${name} is used`)
    }
    t.equal(new Set(panels.map(({ id }) => id)).size, panels.length, 'panel ids are unique')
    for (const panel of panels.filter(({ type }) => type !== 'row')) {
      t.equal(panel.datasource?.uid, `\${datasource}`, panel.title)
      for (const { expr } of panel.targets ?? []) {
        for (const [name] of expr.matchAll(/\b(?:tollgate|authorized|limited|nodejs)_\w+/g)) {
          t.match(documented, `\`${name.replace(/_(bucket|count|sum)$/, '')}`, name)
        }
      }
    }
    for (const { x, w } of panels.map(({ gridPos }) => gridPos)) t.ok(x + w <= 24)
  }
})

root.test('a controller, which is scraped too, is no process that serves', async (t) => {
  for (const { panels } of dashboards) {
    for (const { title, targets = [] } of panels) {
      const isBoth = targets.some(({ expr }) => expr.includes('(tollgate_replicas)'))
      if (isBoth)
        t.notOk(
          targets.some(({ expr }) => expr.includes('up{')),
          title,
        )
    }
  }
})

root.test('panels are of kinds that fit, ten of them in the overview', async (t) => {
  const overview = dashboards.find(({ uid }) => uid === 'tollgate-overview')
  t.equal(overview?.panels.length, 10)
  const kinds = new Set(overview?.panels.map(({ type }) => type))
  t.strictSame([...kinds].sort(), ['bargauge', 'stat', 'table', 'timeseries'])
  for (const { title: dashboard, panels } of dashboards) {
    for (const { type, title, targets = [] } of panels) {
      // A sum over the whole chosen time is one figure for each series, not a line.
      const isWhole = targets.some(({ expr }) => expr.includes('$__range'))
      if (isWhole) t.not(type, 'timeseries', `${dashboard}: ${title}`)
    }
  }
})

/** These have data only with Redis, or after a failure. */
const mayBeEmpty =
  /redis|unflushed|journal|uncounted|model_failures|usage_unusable|revocation_propagation|limited_calls/

const skip = skipPrometheus || (envoyPath() === undefined && 'no Envoy')

root.test('each query of a panel has data in a real Prometheus', { skip }, async (t) => {
  const gateway = await startGateway(t)
  const { metrics } = gateway.addresses
  const rules = fileURLToPath(new URL('rules.yaml', folder))
  const target = `${metrics?.host}:${metrics?.port}`
  const prometheus = await startPrometheus(t, { tollgate: [target] }, rules)
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user })
  const use = async () => {
    await gateway.chat(key, { totalTokens: 20 })
    await gateway.chat('sk-tg-nobody', {})
    await gateway.mint({ user })
  }
  // A rate needs two samples that differ.
  await poll(
    async () => {
      await use()
      const rate = await prometheus.query('sum(rate(authorized_hits_total[1m])) > 0')
      return rate.length > 0
    },
    'Prometheus has a rate of tokens',
    60_000,
  )
  const values: Readonly<Record<string, string>> = {
    __rate_interval: '1m',
    __range: '5m',
    subscription: '.*',
    model: '.*',
    user,
    limit: '1000',
    window: '5m',
  }
  for (const { title: dashboard, panels, templating } of dashboards) {
    for (const { title, targets = [] } of panels) {
      for (const { expr } of targets) {
        const asked = expr.replace(/\$\{?(\w+)\}?/g, (_, name: string) => values[name] ?? '')
        const result = await prometheus.query(asked)
        if (!mayBeEmpty.test(expr)) t.ok(result.length > 0, `${dashboard}: ${title}: ${asked}`)
      }
    }
    for (const { definition = '' } of templating.list) {
      const [, selector = '', label = ''] = /^label_values\((.*), (\w+)\)$/.exec(definition) ?? []
      if (selector === '') continue
      const [first] = await prometheus.query(selector.replace('$user', user))
      t.ok(first !== undefined && label in first.metric, definition)
    }
  }
  const [hits] = await prometheus.query(`authorized_hits_total{user="${user}"}`)
  t.match(hits?.metric, { user, subscription: 'plenty', model: 'llm/sim', job: 'tollgate' })
  t.strictSame(await prometheus.firing(), [])
})
