/**
 * Whether the resources of a model are enforced: every process that may be serving has them in
 * force, and its Envoy has the model's cluster. Unknown never counts as true.
 */

import { appendTo, joinFirst } from '../../formats/lists.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import type { Condition } from './condition.ts'

import { createPolicyConditions, type PolicyKind, policyContent } from './generated-policies.ts'
import type { AllModelPolicies, ModelPolicies } from './policies.ts'

/**
 * Whether an Envoy has a model's current cluster: it was seen to have loaded it; it responds and
 * has not; its admin page does not respond; or there is no cluster.
 */
export type EnvoyState = 'taken' | 'not taken' | 'no answer' | 'none'

/** What a process has in force for one model: digests, '' for none. */
export interface InForce {
  readonly access: string
  readonly limits: string
  readonly server: string
  readonly envoy: EnvoyState
}

export interface ProcessReport {
  readonly name: string
  /** Milliseconds since its last report, or undefined if it does not report, because it is an earlier version. */
  readonly unreportedMs: number | undefined
  /** By model. */
  readonly inForce: ReadonlyMap<string, InForce>
}

/** Why nothing is known: one sentence for every cause, because it appears in thousands of conditions. */
export const databaseProblem = 'Postgres does not answer'

/** The reports of all processes that may be serving, or why they are unavailable. */
export type Reports = readonly ProcessReport[] | { readonly problem: string }

/** What is in force in this process, the resources of each model of it, and where they are in force. */
export interface Enforcement {
  readonly snapshot: Snapshot
  readonly policies: AllModelPolicies
  readonly reports: Reports
  /** Whether a newer version of the model is not in force in this process yet, because Envoy lacks its cluster; by default no. */
  readonly isHeld?: (model: string) => boolean
}

/** The views for resources and policies (conditions.ts). */
export function statusViewsOf({ policies, reports, isHeld }: Omit<Enforcement, 'snapshot'>) {
  const { byModel } = policies
  const heldCondition = (type: 'Enforced' | 'Programmed', model: string) =>
    isHeld?.(model) ? ({ ...held, type, reason: `Not${type}` } as const) : undefined
  return {
    policyConditions: createPolicyConditions(
      policies,
      (each, kind) =>
        heldCondition('Enforced', each.model) ?? enforcedCondition(each, kind, reports),
    ),
    programmedCondition(model: string): Condition | undefined {
      const found = byModel.get(model)
      return found && (heldCondition('Programmed', model) ?? programmedCondition(found, reports))
    },
  }
}

const held = {
  status: 'False',
  message: 'a newer version is not in force in this process yet',
} as const

/** A report older than this is ignored; milliseconds. */
const silentMs = 30_000
/** The number of processes that one message names. */
const namesShown = 10

/** Whether the process has not reported for so long that what it has in force is unknown. */
export function isSilent({ unreportedMs }: ProcessReport): boolean {
  return unreportedMs === undefined || unreportedMs > silentMs
}

/** The condition of a generated policy. */
export function enforcedCondition(
  policies: ModelPolicies,
  kind: PolicyKind,
  reports: Reports,
): Condition {
  const digest = policyContent(policies, kind)?.digest
  return conditionOf('Enforced', policies, reports, ({ access, limits }) => {
    return digest === (kind === 'ModelAuthPolicy' ? access : limits)
  })
}

/** The condition of a ModelRef: whether Envoy has its cluster as written. */
export function programmedCondition(policies: ModelPolicies, reports: Reports): Condition {
  return conditionOf('Programmed', policies, reports, () => true)
}

/** What a process lacks, as words that precede its name. */
function ofEnvoy(envoy: EnvoyState): string | undefined {
  if (envoy === 'not taken') return 'the cluster is not taken by the Envoy of'
  if (envoy === 'no answer') return 'no answer from the Envoy of'
  return undefined
}

/** `isSame`: whether a process with the model's server has the rest of its resources, too. */
function conditionOf(
  type: 'Enforced' | 'Programmed',
  { model, server, isServed }: ModelPolicies,
  reports: Reports,
  isSame: (inForce: InForce) => boolean,
): Condition {
  if (!isServed) {
    const message = 'nothing serves the model yet'
    return { type, status: 'False', reason: 'BackendNotReady', message }
  }
  if ('problem' in reports) {
    return { type, status: 'Unknown', reason: 'Unknown', message: reports.problem }
  }
  if (reports.length === 0) {
    return { type, status: 'False', reason: `Not${type}`, message: 'no process is serving' }
  }
  const lacking = new Map<string, string[]>()
  let isUnknown = false
  for (const process of reports) {
    const found = process.inForce.get(model)
    const isInForce = found?.server === server && isSame(found)
    const what = silenceOf(process) ?? (isInForce ? ofEnvoy(found.envoy) : 'not in force yet in')
    if (what === undefined) continue
    isUnknown ||= isSilent(process)
    appendTo(lacking, what, process.name)
  }
  if (lacking.size === 0) return { type, status: 'True', reason: type, message: '' }
  const message = [...lacking]
    .map(([what, names]) => `${what} ${joinFirst(names, namesShown)}`)
    .join('; ')
  return isUnknown
    ? { type, status: 'Unknown', reason: 'Unknown', message }
    : { type, status: 'False', reason: `Not${type}`, message }
}

function silenceOf(process: ProcessReport): string | undefined {
  if (process.unreportedMs === undefined) return 'no reports (earlier version) by'
  return isSilent(process) ? `no report for ${silentMs / 1_000} s by` : undefined
}
