import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startEmbeddedPostgres } from '../local/postgres/embedded-postgres.ts'
import { checkAuditLog, checkDataDir } from '../settings/check-files.ts'
import { type Config, loadConfig } from '../settings/config.ts'
import {
  adoptTable,
  type CopyCounts,
  copyKeys,
  inspectTable,
  type KeyTable,
} from '../store/api-keys/take-over.ts'
import { migrate as applyMigrations, planMigrations } from '../store/postgres/migrate.ts'
import type { Pool } from '../store/postgres/postgres.ts'
import { auditTakeOver } from './audit-take-over.ts'
import { withPool } from './database.ts'
import { switches, texts } from './flags.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate migrate [--from <url>] [--tenant <name>] [--in-place] [--dry-run]
       tollgate migrate --plan

  (nothing)      migrates the database of DATABASE_URL to our schema; the service does so at its start
  --from <url>   copies the keys of the original service (v3.4 or later) from its database, without
                 writing to it; may be repeated to copy later changes
  --in-place     uses the original's table in its database: that of --from, else of DATABASE_URL
  --tenant       the tenant whose keys to copy, if the original has several
  --dry-run      only prints what would be done
  --plan         prints what would be done to the schema, and which processes keep working with it`

/** The number of keys between two progress messages. */
const reportEvery = 50_000

/**
 * `tollgate migrate`: returns the exit status, 0 if everything was done, 1 if keys were skipped, 2
 * for invalid arguments. Rejects with a readable error.
 */
export async function migrate(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const options = readCall(args, usage, readArguments)
  if (typeof options === 'number') return options
  const { from, tenant, inPlace, dryRun } = options
  const config = loadConfig(env, (config) => [
    ...(config.databaseUrl === undefined && !inPlace ? checkDataDir(config) : []),
    ...(dryRun ? [] : checkAuditLog(config)),
  ])
  if (inPlace) {
    const url = from ?? config.databaseUrl
    if (url === undefined) throw new Error('Name the database by --from or DATABASE_URL.')
    return await withUrl(url, (sql) => takeInPlace(sql, config, dryRun))
  }
  return await withTarget(config, async (target) => {
    if (options.plan) return await showPlan(target)
    await bringToSchema(target, dryRun)
    if (from === undefined) return 0
    return await withUrl(from, (source) => copy({ source, target, tenant, dryRun, config }), true)
  })
}

interface Arguments {
  readonly from: string | undefined
  readonly tenant: string | undefined
  readonly inPlace: boolean
  readonly dryRun: boolean
  readonly plan: boolean
}

function readArguments(args: string[]): Arguments | undefined {
  const { values } = parseArgs({
    args,
    options: { ...texts('from', 'tenant'), ...switches('in-place', 'dry-run', 'plan') },
  })
  const { from, tenant, plan } = values
  if (plan && (args.length > 1 || tenant !== undefined)) return undefined
  if (tenant !== undefined && (from === undefined || values['in-place'])) return undefined
  if (from !== undefined && !/^postgres(ql)?:\/\//.test(from)) return undefined
  return { from, tenant, plan, inPlace: values['in-place'], dryRun: values['dry-run'] }
}

async function showPlan(sql: Pool): Promise<number> {
  const { applied, pending, newer } = await planMigrations(sql)
  console.log(applied.length === 0 ? 'The database is empty.' : `Applied: ${applied.join(', ')}.`)
  if (newer.length > 0) {
    console.log(`Of a newer version, on whose schema this one works: ${newer.join(', ')}.`)
  }
  if (pending.length === 0) console.log('The schema is up to date.')
  for (const { name, worksWith } of pending) {
    const others =
      applied.length === 0
        ? ''
        : name.startsWith(worksWith)
          ? '; stop all older processes first'
          : `; processes of versions that know ${worksWith} go on working`
    console.log(`To be applied: ${name}${others}.`)
  }
  console.log('Nothing was written.')
  return 0
}

async function bringToSchema(sql: Pool, dryRun: boolean): Promise<void> {
  if (dryRun) return
  const applied = await applyMigrations(sql)
  console.log(applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`)
}

async function copy(job: {
  readonly source: Pool
  readonly target: Pool
  readonly tenant: string | undefined
  readonly dryRun: boolean
  readonly config: Config
}): Promise<number> {
  const { source, target, dryRun, config } = job
  const table = await inspectTable(source)
  console.log(`The source has ${describeTable(table)}.`)
  const tenant = chooseTenant(table, job.tenant)
  if (dryRun && !(await hasTable(target))) {
    console.log('Nothing was written: the target is empty, every key would be copied.')
    return 0
  }
  let reported = 0
  const onProgress = (read: number): void => {
    if (read < reported + reportEvery) return
    reported = read
    console.log(`${read} keys read`)
  }
  const { later } = table
  const take = () => copyKeys({ source, target, tenant, later, dryRun, onProgress })
  const taken = ({ copied, updated }: CopyCounts) => copied + updated
  const counts = dryRun ? await take() : await auditTakeOver(config, take, taken)
  const { read, copied, updated, present, conflicting } = counts
  console.log(
    `${dryRun ? 'Nothing was written. Of' : 'Of'} ${read} keys: ${copied} ${dryRun ? 'would be copied' : 'copied'}, ${updated} revoked or expired since, ${present} here already, ${conflicting} in conflict.`,
  )
  if (conflicting > 0) {
    console.error('Left out: keys whose id or hash is here already, but not both together.')
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
    throw new Error(`The source has several tenants; choose by --tenant: ${tenants.join(', ')}`)
  }
  return undefined
}

async function takeInPlace(sql: Pool, config: Config, dryRun: boolean): Promise<number> {
  const table = await inspectTable(sql)
  console.log(`The table has ${describeTable(table)}.`)
  if (table.tenants.length > 1) {
    throw new Error('The table has several tenants; copy one of them by --from and --tenant.')
  }
  for (const name of table.demanding) console.log(`Column ${name} is ours to leave empty.`)
  if (dryRun) {
    console.log('Nothing was written.')
    return 0
  }
  const taken = Object.values(table.statuses).reduce((sum, keys) => sum + keys, 0)
  const adopt = async () => {
    await adoptTable(sql, table)
    await bringToSchema(sql, false)
  }
  await auditTakeOver(config, adopt, () => taken)
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

function withUrl<T>(url: string, action: (sql: Pool) => Promise<T>, readOnly = false): Promise<T> {
  const applicationName = 'tollgate migrate'
  return withPool({ url, connections: 2, applicationName, statementTimeoutMs: 0, readOnly }, action)
}

/** The database that the service would use with these settings. */
async function withTarget<T>(config: Config, action: (sql: Pool) => Promise<T>): Promise<T> {
  if (config.databaseUrl !== undefined) return await withUrl(config.databaseUrl, action)
  const embedded = await startEmbeddedPostgres({
    directory: join(config.dataDir, 'postgres'),
    log: (line) => console.log(line),
  })
  try {
    return await withUrl(embedded.url, action)
  } finally {
    await embedded.stop()
  }
}
