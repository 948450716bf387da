/** `tollgate check <folder>`: reports all problems of the resource files, by file and line. */

import { resourceAdvice } from '../cluster/rules/advice.ts'
import { resourceStatuses } from '../cluster/rules/conditions.ts'
import { createPolicyConditions, policyStatuses } from '../cluster/rules/generated-policies.ts'
import { type LimitBound, limitBounds } from '../cluster/rules/limit-bounds.ts'
import { overshootBounds } from '../cluster/rules/overshoot.ts'
import { policiesInSteps } from '../cluster/rules/policies.ts'
import type { ExactInt } from '../formats/exact.ts'
import { joinFirst } from '../formats/lists.ts'
import { toAmount } from '../formats/money.ts'
import { addressRulesOf } from '../gateway/address-rules.ts'
import { newCounters, removedLimits } from '../models/rules/new-counters.ts'
import type { Snapshot } from '../models/rules/snapshot.ts'
import { invalidDocumentLocations } from '../models/sources/pipeline.ts'
import { formatProblem } from '../models/sources/resource-folder.ts'
import { inSlices } from '../runtime/slices.ts'
import { loadConfig } from '../settings/config.ts'
import { withSettings } from '../settings/setting.ts'
import type { Run } from './command.ts'
import type { checkFlags } from './commands/operate.ts'
import { loadFolder, noResourcesError } from './input-file.ts'
import { formatCount, formatJson, printable, renderTable } from './output.ts'
import type { CommandIo } from './terminal.ts'

/**
 * Prints problems and advice, then the phase that each resource has in the service. Returns the exit status: 1 if there
 * is a problem, 0 if there is only advice.
 */
export const check: Run<typeof checkFlags> = async (
  { operands: [folder = ''], flags },
  { env, out, err },
) => {
  const config = loadConfig(withSettings(env, { RESOURCES: `file:${folder}` }))
  const options = { checkAddress: addressRulesOf(config), admissionMode: config.admissionMode }
  const loaded = await loadFolder(folder, options)
  if (loaded.problems.length === 0 && loaded.resources.length === 0) throw noResourcesError(folder)
  const inForce = flags['in-force']
  const before = inForce === undefined ? undefined : await loadFolder(inForce, options)
  const found = await examine(loaded, before?.snapshot)
  if (flags.json) out(formatJson({ ...found, limits: found.limits.map(toFigures) }))
  else print(found, { out, err })
  return loaded.problems.length > 0 ? 1 : 0
}

type Found = Awaited<ReturnType<typeof examine>>

/** `before`: the resources in force, to report limits that would be removed or begin with new counters. */
async function examine(
  { snapshot, problems, refused }: Awaited<ReturnType<typeof loadFolder>>,
  before: Snapshot | undefined,
) {
  // Only serving processes know which policies are enforced.
  const policies = await inSlices(policiesInSteps(snapshot, refused))
  const policyConditions = createPolicyConditions(policies)
  return {
    resources: resourceStatuses(snapshot, { policyConditions }).map(
      ({ kind, namespace, name, phase, conditions: [ready] }) => {
        const isWell = phase === 'Ready' || phase === 'Active'
        return { kind, namespace, name, phase, why: isWell ? '' : (ready?.message ?? '') }
      },
    ),
    generated: policyStatuses(policies, policyConditions).map(
      ({ kind, namespace, name, conditions: [accepted] }) => {
        const { reason = '', message = '' } = accepted ?? {}
        return { kind, namespace, name, reason, why: message }
      },
    ),
    bounds: [...overshootBounds(snapshot)],
    limits: limitBounds(snapshot),
    problems,
    advice: [
      ...resourceAdvice(snapshot, refused),
      ...(before ? [...newCounters(before, snapshot), ...removedLimits(before, snapshot)] : []),
    ],
  }
}

function print(found: Found, { out, err }: Pick<CommandIo, 'out' | 'err'>): void {
  const { resources, generated, bounds, limits, problems, advice } = found
  for (const problem of problems) err(printable(formatProblem(problem)))
  for (const each of advice) err(`advice: ${each}`)
  const unread = invalidDocumentLocations(problems)
  const rows = [
    ...resources.map((each) => [each.kind, `${each.namespace}/${each.name}`, each.phase, each.why]),
    ...[...unread].map(([key, place]) => {
      const [kind = '', namespace, name] = key.split('/')
      return [kind, `${namespace}/${name}`, 'not read', `see ${place}`]
    }),
    ...generated.map((each) => [
      each.kind,
      `${each.namespace}/${each.name}`,
      each.reason,
      each.why,
    ]),
  ]
  out(renderTable(['KIND', 'NAME', 'PHASE', 'WHY'], rows, 320))
  if (bounds.length > 0) {
    const names = ['RESERVES', 'MODEL', 'WINDOW', 'LIMIT', 'MOST BEYOND']
    const cells = bounds.map(({ subscription, model, window, limit, tokens }) => [
      ...[subscription, model, window, `${limit}`],
      Number.isFinite(tokens) ? `${tokens}` : 'no bound',
    ])
    out(`\n${renderTable(names, cells, 320)}`)
  }
  if (limits.length > 0) {
    const names = ['LIMIT BY NAME', 'OF', 'PER', 'WINDOW', 'LIMIT', 'MOST BEYOND']
    const cells = limits.map((each) => {
      const { limit, beyond } = toFigures(each)
      const { resource, name, of, per, window } = each
      return [`${resource} ${name}`, of, per, window, `${limit}`, `${beyond ?? underWay(each)}`]
    })
    out(`\n${renderTable(names, cells, 320)}`)
  }
  const left = unread.size > 0 ? ` and ${unread.size} not read` : ''
  out(
    `\n${formatCount(resources.length, 'resource')}${left}, ${formatCount(problems.length, 'problem')}`,
  )
}

/** Amounts of money as decimal texts; null if there is no figure. */
function toFigures({ limit, beyond, inProgress, ...rest }: LimitBound) {
  const figure = (amount: ExactInt) => toAmount({ kind: rest.of }, amount)
  return {
    ...rest,
    limit: figure(limit),
    beyond: beyond === undefined ? null : figure(beyond),
    in_progress: inProgress === undefined ? null : Number(inProgress),
  }
}

/** Maximum number of reasons that are shown for one limit. */
const maxReasons = 3

function underWay({ because, inProgress }: LimitBound): string {
  const requests =
    inProgress === undefined
      ? 'what requests in progress use'
      : `what ${inProgress} requests in progress use`
  return `${requests}: ${joinFirst(because, maxReasons)}`
}
