/** `tollgate doctor`: the problems of the process here, in order of harm. */

import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parse } from 'yaml'
import { isSet, withRecordedAddresses } from '../../dev/own-addresses.ts'
import { listReplicas } from '../cluster/replicas.ts'
import type { ResourceStatus } from '../cluster/rules/conditions.ts'
import { parseSocketAddress } from '../formats/address.ts'
import { dayMs } from '../formats/time.ts'
import { requestAdmin } from '../gateway/admin-page.ts'
import { endedAfterMs as silentMs } from '../keys/revocations/revocation-follower.ts'
import { loadSnapshot } from '../models/sources/pipeline.ts'
import { formatProblem } from '../models/sources/resource-folder.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { packageRoot } from '../runtime/package-root.ts'
import { type Config, formatAddress, loadConfig } from '../settings/config.ts'
import { openPool, statementDeadlineMs } from '../store/postgres/postgres.ts'
import { checkCertificates } from '../wiring/check-settings.ts'
import type { Run } from './command.ts'
import type { doctorFlags } from './commands/operate.ts'
import { embeddedDatabaseUrl } from './database.ts'
import { alertConditions, type Figures, type Observed } from './findings.ts'
import { inspectJournal } from './inspect-journal.ts'
import { formatJson, printable } from './output.ts'
import { requestOwnListener } from './own-listener.ts'

const watchMs = 5_000
/** Details of one finding that are shown. */
const shown = 10

/** Runs the command; returns the exit status. Rejects with a readable error for invalid settings. */
export const doctor: Run<typeof doctorFlags> = async ({ flags }, io) => {
  const env = withRecordedAddresses(io.env)
  const config = loadConfig(env)
  const metrics = isSet(env, 'METRICS_ADDRESS') ? {} : await askMetricsAddress(config)
  const observed = await observe({ ...config, ...metrics }, flags['since-start'])
  const isNamed = isSet(env, 'INTERNAL_ADDRESS')
  const down = observed.down && (isNamed ? observed.down : `${observed.down}; ${unnamed(config)}`)
  const seen = { ...observed, down }
  const found = sections().flatMap((section) => {
    const details = alertConditions[section.name]?.(seen)
    return details === undefined ? [] : [{ ...section, details }]
  })
  const status = found.length === 0 ? 0 : 1
  if (flags.json) {
    io.out(formatJson({ object: 'list', data: found }))
    return status
  }
  for (const { severity, summary, details, url } of found) {
    io.out(`${severity.padEnd(8)}  ${summary}`)
    for (const each of details.slice(0, shown)) io.out(`          ${printable(each)}`)
    if (details.length > shown) io.out(`          and ${details.length - shown} more`)
    io.out(`          ${url}`)
  }
  if (found.length === 0) io.out('Nothing is wrong.')
  return status
}

function unnamed({ dataDir }: Config): string {
  return `it is not set, and npm start has recorded no addresses in ${dataDir} (set DATA_DIR to its folder)`
}

interface Alert {
  readonly alert?: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly runbook_url: string }
}

/** The alerts and the other sections of the runbook, the worst first. */
function sections() {
  const text = readFileSync(join(packageRoot, 'monitoring', 'rules.yaml'), 'utf8')
  const { groups } = parse(text) as { groups: readonly { rules: readonly Alert[] }[] }
  const alerts = groups.flatMap(({ rules }) =>
    rules.flatMap(({ alert: name, labels, annotations }) => {
      if (name === undefined) return []
      const { runbook_url } = annotations
      const summary = asAsked[name] ?? annotations.summary
      // The runbook of this version, not the alert's link.
      const url = `docs/runbook.md#${runbook_url.split('#')[1]}`
      return [{ name, severity: labels.severity, summary, url }]
    }),
  )
  const others = Object.entries(otherSections).map(([name, summary]) => {
    const anchor = name.toLowerCase().replaceAll(' ', '-')
    return { name, severity: 'warning', summary, url: `docs/runbook.md#${anchor}` }
  })
  const all = [...alerts, ...others]
  return ['critical', 'warning', 'info'].flatMap((worst) =>
    all.filter(({ severity }) => severity === worst),
  )
}

/** The alerts mention scrapes; this command queries the process itself. */
const asAsked: Readonly<Record<string, string>> = {
  TollgateDown: 'The Tollgate process does not respond, or is not ready.',
  TollgateEnvoyDown: "Envoy's admin interface does not respond.",
  TollgateCertificateExpires: 'A certificate expires soon, or cannot be used.',
}

const otherSections = {
  'Identity providers and the cluster': 'Identity tokens, or changes of resources, cannot be read.',
  'Time zones': 'Processes have different editions of the time zone database.',
  Clocks: 'The clocks of this process and the database differ.',
}

async function observe(config: Config, sinceStart: boolean): Promise<Observed> {
  const [service, envoy, database, journal] = await Promise.all([
    seeService(config, sinceStart),
    seeEnvoy(config),
    seeDatabase(config),
    inspectJournal(config),
  ])
  const daysLeft = new Map([...certificatesOf(config), ...envoy.daysLeft])
  const certificates = { daysLeft, unusable: checkCertificates(config) }
  return { ...service, ...database, journal, envoyDown: envoy.down, ...certificates }
}

/**
 * Asks the process for the address of its metrics, which the units of several processes with otherwise shared settings
 * choose for each. Nothing if it does not report one.
 */
async function askMetricsAddress({ internalAddress, tlsCertFile }: Config) {
  try {
    const secure = { isSecure: tlsCertFile !== undefined }
    const { status, body } = await requestOwnListener(
      internalAddress,
      '/internal/v1/addresses',
      secure,
    )
    if (status !== 200) return {}
    const { metrics } = JSON.parse(body)
    return { metricsAddress: metrics === null ? undefined : parseSocketAddress(metrics) }
  } catch {
    return {}
  }
}

async function seeService(config: Config, sinceStart: boolean) {
  const secure = { isSecure: config.tlsCertFile !== undefined }
  const at = `INTERNAL_ADDRESS ${formatAddress(config.internalAddress)}`
  const { metricsAddress } = config
  const none: Figures = new Map()
  try {
    const before = sinceStart ? none : await scrape(config, secure)
    if (!sinceStart) await delay(watchMs)
    const now = await scrape(config, secure)
    const ready = await requestOwnListener(config.internalAddress, '/readyz', secure)
    const { status, degraded = [] } = JSON.parse(ready.body)
    const { body, ...list } = await requestOwnListener(config.internalAddress, resources, secure)
    const listed = list.status === 200 ? JSON.parse(body) : { data: [], problems: [] }
    const [problems, unreachable] = [impaired(listed), unreachableOf(listed)]
    const down = ready.status === 200 ? undefined : `${at} says: ${status}`
    return { down, degraded, before, now, problems, unreachable }
  } catch (error) {
    const problems = await problemsOf(config.resourceFolder)
    const metrics = metricsAddress ? `, METRICS_ADDRESS ${formatAddress(metricsAddress)}` : ''
    const down = `${at}${metrics}: ${errorMessage(error)}`
    return { down, degraded: [], before: none, now: none, problems, unreachable: [] }
  }
}

const resources = '/internal/v1/resources'

async function scrape({ metricsAddress }: Config, secure: object): Promise<Figures> {
  if (metricsAddress === undefined) return new Map()
  const { status, body } = await requestOwnListener(metricsAddress, '/metrics', secure)
  if (status !== 200) throw new Error(`/metrics has status ${status}`)
  const samples = [...body.matchAll(/^([a-z]\S*(?:\{.*\})?) (\S+)$/gm)]
  return new Map(samples.map(([, series = '', value]) => [series, Number(value)]))
}

interface Listed extends Omit<ResourceStatus, 'phase'> {
  /** Generated policies have none. */
  readonly phase?: string
}

interface List {
  readonly data: readonly Listed[]
  readonly problems: readonly string[]
}

function unreachableOf({ data }: List): readonly string[] {
  return data.flatMap(({ namespace, name, conditions }) => {
    const found = conditions.find(({ type }) => type === 'BackendReachable')
    if (found?.status !== 'False') return []
    const why = [found.reason, found.message].filter(Boolean).join(', ')
    return [`the last request to the server of ${namespace}/${name} failed: ${why}`]
  })
}

function impaired(list: List) {
  const affected = list.data.filter(({ phase = 'Ready' }) => !/^(Ready|Active)$/.test(phase))
  const sentences = affected.map(({ kind, namespace, name, phase, conditions }) => {
    const why = conditions.find(({ type }) => type === 'Ready')?.message ?? ''
    return `${kind} ${namespace}/${name} is ${phase}: ${why}`
  })
  return [...list.problems, ...sentences]
}

async function problemsOf(folder: string | undefined): Promise<readonly string[]> {
  if (folder === undefined) return []
  const loaded = await loadSnapshot(folder).catch(() => undefined)
  return loaded?.problems.map(formatProblem) ?? [`${folder} cannot be read`]
}

async function seeEnvoy({ envoyAdminAddress: admin }: Config) {
  try {
    const stats = await requestAdmin(admin, '/stats?filter=expiration_unix_time_seconds')
    return { down: undefined, daysLeft: certificatesIn(stats) }
  } catch (error) {
    return { down: `${formatAddress(admin)}: ${errorMessage(error)}`, daysLeft: new Map() }
  }
}

/** Without `authorities`, by default the system's: such a list always has some that expire, or have. */
function certificatesIn(stats: string): ReadonlyMap<string, number> {
  const line =
    /^(.+)\.ssl\.certificate\.(?!authorities\.)(.+)\.expiration_unix_time_seconds: (\d+)$/gm
  const found = [...stats.matchAll(line)].map(([, owner, name, end]) => {
    return [`Envoy, ${name} of ${owner}`, (Number(end) * 1_000 - Date.now()) / dayMs] as const
  })
  return new Map(found)
}

/** Days until the first certificate of each file expires; without illegible files, which `checkCertificates` names. */
function certificatesOf(config: Config): readonly (readonly [string, number])[] {
  const files = [config.gatewayTlsCertFile, config.tlsCertFile, config.tlsClientCaFile]
  return files.flatMap((path) => {
    if (path === undefined) return []
    try {
      const found =
        readFileSync(path, 'utf8').match(/-----BEGIN CERT.*?-----END CERT[^\n]*/gs) ?? []
      const ends = found.map((pem) => Date.parse(new X509Certificate(pem).validTo))
      return ends.length === 0 ? [] : [[path, (Math.min(...ends) - Date.now()) / dayMs]]
    } catch {
      return []
    }
  })
}

async function seeDatabase(config: Config) {
  const url = config.databaseUrl ?? embeddedDatabaseUrl(config.dataDir)
  if (url === undefined) return { silent: [] }
  const sql = openPool({ url, connections: 1, applicationName: 'tollgate doctor' })
  try {
    const clock = sql<{ now: number }[]>`
      select extract(epoch from clock_timestamp())::float8 as now`
    const [{ now } = { now: 0 }] = await clock.run(statementDeadlineMs)
    const aheadSeconds = now - Date.now() / 1_000
    const replicas = await listReplicas(sql)
    const silent = replicas.filter(({ unseenMs }) => unseenMs > silentMs)
    return { aheadSeconds, silent: silent.map(({ name, place }) => `${name} at ${place}`) }
  } catch (error) {
    return { silent: [], databaseError: errorMessage(error) }
  } finally {
    await sql.end()
  }
}
