import { join } from 'node:path'
import { startEmbeddedPostgres } from '../../dev/postgres/embedded-postgres.ts'
import {
  alterKeyTable,
  type CopyCounts,
  copyKeys,
  inspectKeyTable,
  type KeyTable,
} from '../keys/take-over.ts'
import { checkAuditLog, checkDataDir } from '../settings/check-files.ts'
import { type Config, loadConfig } from '../settings/config.ts'
import { invalid, postgresUrl } from '../settings/readers.ts'
import { migrate as applyMigrations, planMigrations } from '../store/postgres/migrate.ts'
import type { Pool } from '../store/postgres/postgres.ts'
import { auditTakeOver } from './audit-take-over.ts'
import { type FlagsOf, type Run, WrongCall } from './command.ts'
import type { migrateFlags } from './commands/operate.ts'
import { embeddedDatabaseUrl, isRunning, requireResponse, withPool } from './database.ts'
import { formatJson } from './output.ts'

/** Messages during the run, and the result that --json prints. */
interface Report {
  readonly say: (line: string) => void
  readonly warn: (line: string) => void
  readonly result: Record<string, unknown>
  readonly printsJson: boolean
}

/** The number of keys between two progress messages. */
const reportEvery = 50_000

/**
 * `tollgate migrate`: returns the exit status, 0 if everything was done, 1 if keys were skipped. Rejects
 * with a readable error.
 */
export const migrate: Run<typeof migrateFlags> = async ({ flags }, { env, out, err }) => {
  refuseTogether(flags)
  const report: Report = {
    say: flags.json ? err : out,
    warn: err,
    result: {},
    printsJson: flags.json,
  }
  const status = await run(flags, env, report)
  if (flags.json) out(formatJson(report.result))
  return status
}

type Given = FlagsOf<typeof migrateFlags>

function refuseTogether(flags: Given): void {
  const { from, tenant, plan } = flags
  const inPlace = flags['in-place']
  if (plan && (from !== undefined || inPlace || flags['dry-run'] || tenant !== undefined)) {
    throw new WrongCall('--plan cannot be combined with other flags.')
  }
  if (tenant !== undefined && (from === undefined || inPlace)) {
    throw new WrongCall('--tenant needs --from, and cannot be combined with --in-place.')
  }
  if (from !== undefined && postgresUrl.read(from) === invalid) {
    throw new WrongCall(`--from must be ${postgresUrl.form.replaceAll('`', '')}.`)
  }
}

async function run(flags: Given, env: NodeJS.ProcessEnv, report: Report): Promise<number> {
  const { from, tenant, plan, 'in-place': inPlace, 'dry-run': dryRun } = flags
  const onlyLooks = plan || dryRun
  const config = loadConfig(env, (config) =>
    onlyLooks
      ? []
      : [
          ...(config.databaseUrl === undefined && !inPlace ? checkDataDir(config) : []),
          ...checkAuditLog(config),
        ],
  )
  if (inPlace) {
    const url = from ?? config.databaseUrl
    if (url === undefined) throw new Error('Set --from or DATABASE_URL.')
    const setting = from === undefined ? 'DATABASE_URL' : '--from'
    return await withUrl(setting, url, (sql) => takeInPlace(sql, config, dryRun, report))
  }
  return await withTarget(config, report, onlyLooks, async (target) => {
    if (plan || (dryRun && from === undefined)) {
      return await showPlan(target, report, plan)
    }
    if (!dryRun && target !== undefined) await bringToSchema(target, report)
    if (from === undefined) return 0
    const job = { target, tenant, dryRun, config, report }
    return await withUrl('--from', from, (source) => copy({ source, ...job }), true)
  })
}

async function showPlan(
  sql: Pool | undefined,
  { say, result }: Report,
  listsApplied: boolean,
): Promise<number> {
  const { applied, pending, newer } = await planMigrations(sql)
  Object.assign(result, { applied, pending, newer })
  if (applied.length === 0) say('The database is empty.')
  else if (listsApplied) say(`Applied: ${applied.join(', ')}.`)
  if (newer.length > 0) {
    say(`Applied by a newer version, whose schema this version can use: ${newer.join(', ')}.`)
  }
  if (pending.length === 0) say('The schema is up to date.')
  for (const { name, worksWith } of pending) {
    const others =
      applied.length === 0
        ? ''
        : name.startsWith(worksWith)
          ? '; stop all older processes first'
          : `; processes of versions that know ${worksWith} keep working`
    say(`To be applied: ${name}${others}.`)
  }
  say('Nothing was written.')
  return 0
}

async function bringToSchema(sql: Pool, { say, result }: Report): Promise<void> {
  const applied = await applyMigrations(sql)
  result.applied = applied
  say(applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`)
}

async function copy(job: {
  readonly source: Pool
  readonly target: Pool | undefined
  readonly tenant: string | undefined
  readonly dryRun: boolean
  readonly config: Config
  readonly report: Report
}): Promise<number> {
  const { source, target, dryRun, config, report } = job
  const { say, warn, result } = report
  const table = await inspectKeyTable(source)
  say(`The source has ${describeTable(table)}.`)
  const tenant = chooseTenant(table, job.tenant)
  if (target === undefined || (dryRun && !(await hasTable(target)))) {
    say('Nothing was written: the target is empty, so all keys would be copied.')
    return 0
  }
  let reported = 0
  const onProgress = (read: number): void => {
    if (read < reported + reportEvery) return
    reported = read
    say(`${read} keys read`)
  }
  const { later } = table
  const take = () => copyKeys({ source, target, tenant, later, dryRun, onProgress })
  const taken = ({ copied, updated }: CopyCounts) => copied + updated
  const counts = dryRun ? await take() : await auditTakeOver(config, take, taken, report)
  Object.assign(result, counts)
  const { read, copied, updated, present, conflicting } = counts
  say(
    `${dryRun ? 'Nothing was written. Of' : 'Of'} ${read} keys: ${copied} ${dryRun ? 'would be copied' : 'copied'}, ${updated} revoked or expired since, ${present} here already, ${conflicting} in conflict.`,
  )
  if (conflicting > 0) {
    warn('Left out conflicting keys, whose id or hash belongs to another key here.')
  }
  return conflicting > 0 ? 1 : 0
}

/** Users of two tenants may share a name: their keys must not be mixed. */
function chooseTenant({ tenantColumn, tenants }: KeyTable, name: string | undefined) {
  if (name !== undefined) {
    if (tenantColumn === undefined || !tenants.includes(name)) {
      throw new Error(`The source has no keys of a tenant "${name}".`)
    }
    return { column: tenantColumn, name }
  }
  if (tenants.length > 1) {
    const names = tenants.map((name) => name || "''").join(', ')
    throw new Error(`The source has several tenants; choose by --tenant: ${names}`)
  }
  return undefined
}

async function takeInPlace(
  sql: Pool,
  config: Config,
  dryRun: boolean,
  report: Report,
): Promise<number> {
  const { say, result } = report
  const table = await inspectKeyTable(sql)
  result.statuses = table.statuses
  say(`The table has ${describeTable(table)}.`)
  if (table.tenants.length > 1) {
    throw new Error('The table has several tenants; copy one of them with --from and --tenant.')
  }
  for (const name of table.demanding) say(`Column ${name} is left empty.`)
  if (dryRun) {
    say('Nothing was written.')
    return 0
  }
  const taken = Object.values(table.statuses).reduce((sum, keys) => sum + keys, 0)
  const adopt = async () => {
    await alterKeyTable(sql, table)
    await bringToSchema(sql, report)
  }
  await auditTakeOver(config, adopt, () => taken, report)
  return 0
}

function describeTable({ statuses }: KeyTable): string {
  const counts = Object.entries(statuses).map(([status, keys]) => `${keys} ${status}`)
  return counts.length === 0 ? 'no keys' : `keys: ${counts.join(', ')}`
}

async function hasTable(sql: Pool): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`select to_regclass('api_keys') is not null as found`
  return row?.found === true
}

function withUrl<T>(
  setting: string,
  url: string,
  action: (sql: Pool) => Promise<T>,
  readOnly = false,
): Promise<T> {
  const options = { applicationName: 'tollgate migrate', statementTimeoutMs: 0, readOnly }
  return withPool({ url, connections: 2, ...options }, async (sql) => {
    await requireResponse(sql, setting)
    return await action(sql)
  })
}

/**
 * The database that the service would use with these settings; undefined if there is none, and it would only be
 * inspected.
 */
async function withTarget<T>(
  config: Config,
  { say }: Report,
  onlyLooks: boolean,
  action: (sql: Pool | undefined) => Promise<T>,
): Promise<T> {
  if (config.databaseUrl !== undefined)
    return await withUrl('DATABASE_URL', config.databaseUrl, action)
  const created = embeddedDatabaseUrl(config.dataDir)
  if (created === undefined && onlyLooks) return await action(undefined)
  if (created !== undefined && (await isRunning(created))) {
    return await withUrl('DATA_DIR', created, action)
  }
  const embedded = await startEmbeddedPostgres({
    directory: join(config.dataDir, 'postgres'),
    log: say,
  })
  try {
    return await withUrl('DATA_DIR', embedded.url, action)
  } finally {
    await embedded.stop()
  }
}
