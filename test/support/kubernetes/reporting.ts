import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import type { Test } from 'tap'
import {
  type ClusterController,
  startClusterController,
} from '../../../src/cluster/controller/cluster-controller.ts'
import { createInForceReport } from '../../../src/cluster/in-force/reporter.ts'
import type { JsonObject } from '../../../src/formats/fields.ts'
import { createClient } from '../../../src/kubernetes/client.ts'
import type { RefusedResource } from '../../../src/models/rules/refused-resources.ts'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import { createClusterSource } from '../../../src/models/sources/cluster-source.ts'
import { startPipeline } from '../../../src/models/sources/pipeline.ts'
import { loadConfig } from '../../../src/settings/config.ts'
import { compile } from '../compile.ts'
import { createKeyDatabase } from '../followers.ts'
import { poll } from '../poll.ts'
import { controllerDatabase } from './controller-database.ts'
import { writeKubeconfig } from './kubeconfig.ts'
import type { World } from './world.ts'

export interface Condition {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly lastTransitionTime: string
}

/** A generated policy. */
export interface Policy {
  readonly metadata: {
    readonly uid: string
    readonly generation: number
    readonly resourceVersion: string
    readonly labels: Readonly<Record<string, string>>
    readonly ownerReferences: readonly { readonly uid: string }[]
    readonly managedFields?: readonly { readonly manager: string; readonly subresource?: string }[]
  }
  readonly spec: {
    readonly digest: string
    readonly accessPolicies?: readonly string[]
    readonly groups?: number
  }
  readonly status?: {
    readonly observedGeneration: number
    readonly conditions: readonly Condition[]
  }
}

export const plurals = { auth: 'modelauthpolicies', trlp: 'tokenratelimitpolicies' } as const

/** The path of a generated policy in the namespace `llm`. */
export const pathOf = (kind: keyof typeof plurals, model: string): string =>
  `/apis/tollgate.dev/v1alpha1/namespaces/llm/${plurals[kind]}/maas-${kind}-${model}`

/** The policy as the API server has it; undefined if there is none. */
export async function policyOf(
  { client }: World,
  kind: keyof typeof plurals,
  model: string,
): Promise<Policy | undefined> {
  try {
    return (await client.send({ path: pathOf(kind, model) })) as unknown as Policy
  } catch (error) {
    if ((error as { status?: number }).status === 404) return undefined
    throw error
  }
}

/** Whether the current policy is enforced. */
export function isEnforced(policy: Policy | undefined): policy is Policy {
  const { status, metadata } = policy ?? {}
  const found = status?.conditions.find(({ type }) => type === 'Enforced')
  return found?.status === 'True' && status?.observedGeneration === metadata?.generation
}

/** Waits until it is enforced and meets the condition; returns it. */
export async function enforced(
  world: World,
  kind: keyof typeof plurals,
  model: string,
  is: (policy: Policy) => boolean = () => true,
): Promise<Policy> {
  const ask = async (): Promise<Policy | undefined> => {
    const found = await policyOf(world, kind, model)
    return isEnforced(found) && is(found) ? found : undefined
  }
  return (await poll(ask, `${kind} of ${model} is enforced`, 60_000)) as Policy
}

/** A database with one process that reports the resources that it has read from the cluster, as `serve` does. */
export async function startReporting(t: Test, world: World): Promise<string> {
  const { url, sql } = await createKeyDatabase(t)
  const id = randomUUID()
  await sql`insert into tollgate_replicas (id, name, place, seen_at, serves_until, acknowledged)
    values (${id}, 'one', 'one', now(), now() + interval '1 hour', 0)`
  let state: { snapshot: Snapshot; refused: readonly RefusedResource[] } = {
    snapshot: compile([]),
    refused: [],
  }
  const report = createInForceReport({
    ...{ sql, replica: id, state: () => state, envoyOf: () => 'taken' },
    onFault: (error) => t.fail('a report', { error }),
  })
  const controller = await startPipeline({
    source: createClusterSource({
      client: createClient(world.access),
      groups: ['tollgate.dev'],
      onProblem() {},
      absentMs: 500,
    }),
    async publish(snapshot, _, refused) {
      state = { snapshot, refused }
      report.note()
    },
    report() {},
    onFailure: (error) => t.fail('a change is in force', { error }),
  })
  t.teardown(() => {
    controller.close()
    report.close()
  })
  await report.start()
  return url
}

/** A controller, started as the command does, that reads those reports. */
export async function startWriting(
  t: Test,
  world: World,
  databaseUrl: string,
): Promise<ClusterController> {
  const controller = await startClusterController({
    config: loadConfig({
      ...{ RESOURCES: 'kubernetes', KUBECONFIG: writeKubeconfig(t, world.access) },
      DATABASE_URL: databaseUrl,
    }),
    database: controllerDatabase(t, databaseUrl),
    log: pino({ level: 'silent' }),
    clock: Date.now,
    leaseMs: [5_000, 1_000],
  })
  t.teardown(() => controller.stop())
  return controller
}

/** Sends a server-side apply with this field manager. */
export async function applyAs(
  { client }: World,
  manager: string,
  path: string,
  body: JsonObject,
): Promise<JsonObject> {
  return await client.send({
    method: 'PATCH',
    path: `${path}?fieldManager=${manager}`,
    contentType: 'application/apply-patch+yaml',
    body,
  })
}
