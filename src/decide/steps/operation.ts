/** Step `operation`: whether the operation is open, and the body one that its model may be sent. */

import type { Model, Snapshot } from '../../models/rules/snapshot.ts'
import {
  isMetered,
  meterable,
  type PathRefusal,
  type PathRules,
  refuseOperation,
} from '../../operations/operations.ts'
import {
  parseFoundFields,
  refuseFields,
  refuseStoredObjects,
  unreadFields,
} from '../../operations/restrictions.ts'
import type { AccessRequest } from '../access-request.ts'
import { type Denial, deny } from '../decision.ts'
import type { DecisionContext, StepFindings } from './step.ts'

export function checkOperation(context: DecisionContext): Denial | StepFindings {
  const { request, snapshot, rules, model } = context
  const { operation } = request.target
  const closed = refuseHere(model, operation, request.method, rules)
  if (closed !== undefined) return { allowed: false, ...closed }
  const isOneAnswer = allowsOneChoiceOnly(model, operation, rules, snapshot)
  const problem = refuseBody(request, model, rules, isOneAnswer)
  if (problem !== undefined) return deny('invalid_body', { about: 'body', problem })
  const name = modelNameInBody(request)
  if (name !== undefined && !mayName(name, model)) {
    return deny('model_not_allowed', { about: 'model', name })
  }
  return { isOneAnswer }
}

/** The name in the body of a model's own path. Undefined before the gateway has read it, even if a client sends the header. */
export function modelNameInBody({
  target,
  isUnread,
  bodyModel,
}: AccessRequest): string | undefined {
  return target.modelKey !== undefined && !isUnread ? bodyModel : undefined
}

/** The refusal of an operation that is closed for every caller of the model. */
function refuseHere(
  { resource }: Model,
  operation: string,
  method: string,
  rules: PathRules,
): PathRefusal | undefined {
  const { server, state } = resource
  const closed = refuseOperation(operation, method, rules, server.allPaths)
  if (closed !== undefined || state === 'shared') return closed
  return refuseStoredObjects(operation, method, server.allPaths)
}

/** Refuses a faulty body. On shared paths an unreadable one is refused before the model is looked up. */
function refuseBody(
  { target: { operation }, method, bodyProblem, size, isUnread }: AccessRequest,
  { resource }: Model,
  rules: PathRules,
  isOne: boolean,
): string | undefined {
  const fields = parseFoundFields(bodyProblem)
  if (fields === undefined && bodyProblem !== undefined) return bodyProblem
  const named = fields ?? unreadFields(operation, method)
  const problem = refuseFields(named, resource, isMetered(operation, rules))
  if (problem !== undefined || !isOne || isUnread || size === undefined) return problem
  return refuseMoreChoices(size)
}

/** Whether a body may use this name on the model's own path: one of its names, if they are known. */
function mayName(name: string, { bodyNames }: Model): boolean {
  if (bodyNames === undefined) return true
  return !name.includes('\t') && `\t${bodyNames}\t`.includes(`\t${name}\t`)
}

/** Operations on which such servers report the usage of one answer only. */
const operations: ReadonlySet<string> = new Set([meterable.chat, meterable.completions])

/**
 * Whether requests of this operation may ask for one answer only, because the others would not be counted: according to
 * the ModelRef, or else if its server is llama.cpp's.
 */
export function allowsOneChoiceOnly(
  model: Model,
  operation: string,
  rules: PathRules,
  { servedNames }: Pick<Snapshot, 'servedNames'>,
): boolean {
  if (!operations.has(operation) || !isMetered(operation, rules)) return false
  return !(model.resource.output?.usageOfAllAnswers ?? !servedNames.isLlamaCpp(model))
}

/**
 * The problem of a request for several answers, or undefined if it asks for one. `size` is as read by the gateway;
 * an unknown number is taken for one.
 */
export function refuseMoreChoices(size: {
  readonly choices?: number | undefined
  readonly problem?: string | undefined
}): string | undefined {
  const { choices = 1, problem } = size
  if (problem !== undefined || choices <= 1) return problem
  return (
    `it asks for ${choices} answers, but the server of this model reports the usage of only one; ` +
    'ask for one at a time (n, n_cmpl, best_of, prompt); spec.output.usageOfAllAnswers: true of the ModelRef allows several'
  )
}
