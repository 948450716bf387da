/**
 * Fields of a body that only the decision can judge, because that depends on the model or on the settings.
 * On shared paths the gateway's script has read the body before the model is known, and names those
 * that it has found; where the path names the model, it judges them itself, by `openedFields`.
 */

import { choosingFields, internalFields } from '../kinds/body-fields.ts'
import type { ModelRef } from '../kinds/resources.ts'

/** Before the names that the script has found, separated by commas; nothing else that is wrong begins so. */
const found = 'fields '

/** The fields that the script has found; undefined: it reports something else, or nothing. */
export function foundFields(problem: string | undefined): readonly string[] | undefined {
  return problem?.startsWith(found) ? problem.slice(found.length).split(',') : undefined
}

/** What is wrong with fields that are refused where tokens are counted. The script has the same texts. */
const uncounted: ReadonlyMap<string, string> = new Map([
  ...['background', 'deferred'].map(
    (name) =>
      [
        name,
        `${name} must be false or left out, because the tokens of such a response are not counted`,
      ] as const,
  ),
  [
    'additional_drop_params',
    'additional_drop_params may leave out a maximum, or what asks for the usage that is counted',
  ],
])

const choosing: ReadonlySet<string> = new Set(choosingFields)
const internal: ReadonlySet<string> = new Set(internalFields)

/**
 * What is wrong with the first of these fields that the model does not open; undefined: nothing. A field that
 * is not known here counts as one that names something stored.
 */
export function refuseFields(
  fields: readonly string[],
  model: ModelRef,
  isMetered: boolean,
): string | undefined {
  for (const field of fields) {
    const problem = uncounted.get(field)
    if (problem !== undefined) {
      if (isMetered) return problem
    } else if (choosing.has(field)) {
      if (namesItsModel(model) && !opens(model, field)) return choosingProblem(field)
    } else if (internal.has(field)) {
      if (!opens(model, field)) return internalProblem(field)
    } else if (model.state !== 'shared') {
      return stateProblem(field)
    }
  }
  return undefined
}

/** Whether the body's name is compared with the model's, or replaced, so that nothing else may choose. */
function namesItsModel({ modelIds, server }: ModelRef): boolean {
  return modelIds.length > 0 || server.upstreamModel !== undefined
}

function opens({ modelFields }: ModelRef, field: string): boolean {
  return modelFields.some((each) => each === field)
}

/** What the script must know of a model to judge its bodies; undefined: nothing is open. */
export function openedFields({ state, modelFields }: ModelRef): string | undefined {
  const opened = [...(state === 'shared' ? ['state'] : []), ...modelFields]
  return opened.length === 0 ? undefined : opened.join(' ')
}

function choosingProblem(field: string): string {
  return `${field} may choose another model or account than the one that is checked and counted; spec.modelFields of the ModelRef opens it`
}

function internalProblem(field: string): string {
  return `${field} is for the servers of a model, which may read the memory of other requests by it; spec.modelFields of the ModelRef opens it`
}

/** The script has the same text, and those of the others. */
function stateProblem(field: string): string {
  return `${field} names what is stored in the account that all callers of this model share; spec.state: shared of its ModelRef opens it`
}
