/** Resources from a folder or a cluster: read, compiled, written for Envoy, and put in force. */

import { createResourceAudit } from '../audit/service-events.ts'
import { createInForceReport } from '../cluster/in-force/reporter.ts'
import { followReports } from '../cluster/in-force/reports.ts'
import type { Enforcement } from '../cluster/rules/enforcement.ts'
import { createActivation, type DecisionCache } from '../gateway/activation.ts'
import { addressRulesOf } from '../gateway/address-rules.ts'
import { readLoadedClusters } from '../gateway/admin-page.ts'
import { createClusterFile } from '../gateway/cluster-file.ts'
import { createOverdueLog } from '../gateway/overdue-log.ts'
import { createSecretFiles } from '../gateway/secret-files.ts'
import { createSecretReader } from '../gateway/secret-source.ts'
import { accessOf } from '../kubernetes/access.ts'
import { createClient } from '../kubernetes/client.ts'
import { createReadSecretEntry } from '../kubernetes/secrets.ts'
import { createClusterSource } from '../models/sources/cluster-source.ts'
import { createFolderSource } from '../models/sources/folder-source.ts'
import { checkNamedAddresses } from '../models/sources/named-addresses.ts'
import { startPipeline } from '../models/sources/pipeline.ts'
import { createResourceLogger } from '../models/sources/resource-report.ts'
import { untilAvailable } from '../store/postgres/until-available.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'
import type { Keys } from './keys.ts'

export type Resources = Awaited<ReturnType<typeof openResources>>

/** Resolves when the first snapshot is in force. */
export async function openResources(
  context: Context,
  { pool: sql }: Database,
  { follower }: Pick<Keys, 'follower'>,
  table: DecisionCache,
) {
  const { config, log, onFault, stops } = context
  const clusterFile = createClusterFile({
    directory: config.envoyConfigDir,
    readLoadedClusters: (named) => readLoadedClusters(config.envoyAdminAddress, named),
    onLoaded: () => void activation.activate().catch(onFault),
    onSeen: () => report.note(),
    onOverdue: createOverdueLog(log),
    onFault,
  })
  const origin = openResourceSource(context)
  const secrets = createSecretFiles({
    directory: config.envoyConfigDir,
    read: origin.readSecret,
    onProblem: (problem) =>
      log.warn(
        { code: 'model_secret_missing', problem },
        'cannot serve a model: its Secret is missing',
      ),
    onFault,
  })
  const noteChanges = createResourceAudit(context.audit)
  const activation = createActivation(
    clusterFile,
    secrets,
    (resources) => {
      report.note()
      void noteChanges(resources)
    },
    table,
  )
  const report = createInForceReport({
    sql,
    replica: follower.id,
    state: activation.state,
    envoyOf: (model) => clusterFile.unseen.get(model)?.reason ?? 'taken',
    onFault,
  })
  const inForce = followReports(sql)
  const closing = new AbortController()
  const { signal } = closing
  stops.push(() => {
    closing.abort()
    report.close()
    clusterFile.close()
    secrets.close()
  })
  let published = { compileS: 0, at: performance.now() }
  const checked = checkNamedAddresses({
    source: origin.source,
    rules: addressRulesOf(config),
    signal,
  })
  const pipeline = await startPipeline({
    source: checked.source,
    starting: context.signal,
    routing: { internalGateway: config.gatewayInternal, clusterDomain: config.clusterDomain },
    checkAddress: checked.check,
    admissionMode: config.admissionMode,
    publish: (fresh, resources, refused) => activation.publish({ fresh, resources, refused }),
    onPublished(compileMs) {
      published = { compileS: compileMs / 1_000, at: performance.now() }
    },
    report: createResourceLogger(log),
    onFailure: (error) =>
      log.error(
        { code: 'resources_failing', err: error },
        'cannot put all resources in force: will retry',
      ),
  }).catch((error: NodeJS.ErrnoException) => {
    const isOfEnvoy = error.path?.startsWith(config.envoyConfigDir)
    if (isOfEnvoy) throw new Error(`ENVOY_CONFIG_DIR: ${error.message}`)
    throw new Error(`RESOURCES: cannot read ${origin.shown}`, { cause: error })
  })
  stops.push(() => pipeline.close())
  await untilAvailable(() => report.start(), context)
  return {
    /** The snapshot in force. */
    snapshot: activation.snapshot,
    /** The snapshot published last, with models that wait for their cluster. */
    latest: activation.latest,
    /** The state of each model in this process, and the reports of all processes. */
    async enforcement(): Promise<Enforcement> {
      const reports = await inForce.read()
      // The later of the two: reports of what was in force before must not confirm this.
      return { ...(await report.readCurrent()), reports, isHeld: activation.isHeld }
    },
    /** A secret that a resource names, from the files of SECRETS_DIR or the cluster's Secrets. */
    readSecret: origin.readSecret,
    problems: (): readonly string[] => [...pipeline.problems(), ...secrets.problems()],
    locate: pipeline.locate,
    /**
     * Models whose cluster Envoy has not been seen to load. They wait for it for some seconds, in
     * their old version or not in force; after that, they are in force anyway.
     */
    modelsWaiting: (): number => clusterFile.waiting.size + clusterFile.unseen.size,
    /** What `/readyz` lists while changes cannot be read, or not be put in force as a whole. */
    degraded: (): readonly string[] => [
      ...origin.degraded(),
      ...(pipeline.isFailing() ? ['resources'] : []),
    ],
    /** How long the resources in force took to compile, and since when they are; seconds. */
    published: (): { readonly compileS: number; readonly ageS: number } => ({
      compileS: published.compileS,
      ageS: (performance.now() - published.at) / 1_000,
    }),
  }
}

/**
 * The source, the reader of secrets, the source's name in `/readyz` while it cannot be read, and a description for the log.
 * Throws an error that names the setting to check.
 */
function openResourceSource({ config, log }: Context) {
  const { resourceFolder, secretsDir, watchGroups } = config
  if (resourceFolder !== undefined) {
    const source = createFolderSource(resourceFolder)
    return {
      source,
      readSecret: createSecretReader(secretsDir),
      degraded: (): readonly string[] => (source.isUnavailable ? ['resources'] : []),
      shown: resourceFolder,
    }
  }
  const client = createClient(accessOf(config), { timeoutMs: 30_000 })
  const source = createClusterSource({
    client,
    groups: watchGroups,
    onProblem(collection, problem) {
      if (problem === undefined)
        log.info({ code: 'cluster_readable', collection }, 'resumed reading the cluster')
      else
        log.warn(
          { code: 'cluster_unreadable', collection, problem },
          'cannot read the cluster: the last known state stays in force',
        )
    },
  })
  return {
    source,
    readSecret: createSecretReader(secretsDir, createReadSecretEntry(client)),
    degraded: (): readonly string[] => (source.isUnavailable ? ['kubernetes'] : []),
    shown: 'the cluster',
  }
}
