/** `tollgate check <folder>`: reports all problems of the resource files, by file and line. */

import { adviceOn } from '../core/status/advice.ts'
import { statusOf } from '../core/status/conditions.ts'
import { createPolicyConditions, policyStatuses } from '../core/status/generated-policies.ts'
import { boundsOf } from '../core/status/overshoot.ts'
import { policiesOf } from '../core/status/policies.ts'
import { judgeOf } from '../gateway/address-rules.ts'
import { loadConfig } from '../settings/config.ts'
import { showProblem } from '../sources/files.ts'
import { loadSnapshot } from '../sources/pipeline.ts'
import { printable, renderTable } from './table.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate check <folder>

Checks the resources in a folder of YAML files. Prints every problem with its file and line, then the
phase that each resource would have, why a model would be Pending, and whether the resources of each
model would be accepted. The settings of the environment say where models may be and how requests are
admitted. The exit status is 1 if there is a problem, and 0 if there is only advice.`

/**
 * Prints problems and advice, then the phase of each resource as in the service. Returns the exit
 * status: 1 if there is a problem, 0 if there is only advice, 2 for invalid arguments.
 */
export async function check(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const call = readCall(args, usage, ([folder, ...rest]) =>
    folder === undefined || rest.length > 0 ? undefined : { folder },
  )
  if (typeof call === 'number') return call
  const { folder } = call
  const config = loadConfig({ ...env, RESOURCES: `file:${folder}` })
  const options = { judgeAddress: judgeOf(config), admission: config.admission }
  const loaded = await loadSnapshot(folder, options).catch(() => undefined)
  if (loaded === undefined) {
    console.error(`${folder} cannot be read; name a folder of YAML files`)
    return 1
  }
  const { snapshot, problems, refused } = loaded
  for (const problem of problems) console.error(printable(showProblem(problem)))
  for (const advice of adviceOn(snapshot)) console.error(`advice: ${advice}`)
  // Only serving processes know what is enforced.
  const policies = policiesOf(snapshot, refused)
  const policyConditions = createPolicyConditions(policies)
  const statuses = statusOf(snapshot, { policyConditions })
  const rows = statuses.map(({ kind, namespace, name, phase, conditions: [ready] }) => {
    // What makes the others less than Ready is among the problems.
    const why = phase === 'Pending' ? (ready?.message ?? '') : ''
    return [kind, `${namespace}/${name}`, phase, why]
  })
  const generated = policyStatuses(policies, policyConditions).map(
    ({ kind, namespace, name, conditions: [accepted] }) => [
      kind,
      `${namespace}/${name}`,
      accepted?.reason ?? '',
      '',
    ],
  )
  console.log(renderTable(['KIND', 'NAME', 'PHASE', 'WHY'], [...rows, ...generated], 320))
  const bounds = [...boundsOf(snapshot)].map(({ subscription, model, window, limit, tokens }) => [
    ...[
      subscription,
      model,
      window,
      `${limit}`,
      Number.isFinite(tokens) ? `${tokens}` : 'no bound',
    ],
  ])
  if (bounds.length > 0) {
    const names = ['RESERVES', 'MODEL', 'WINDOW', 'LIMIT', 'MOST BEYOND']
    console.log(`\n${renderTable(names, bounds, 320)}`)
  }
  console.log(`\n${counted(rows.length, 'resource')}, ${counted(problems.length, 'problem')}`)
  return problems.length > 0 ? 1 : 0
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
