/** Requests for several answers, of a model whose server reports the usage of one of them only. */

import type { Model, Snapshot } from '../models/rules/snapshot.ts'
import { isMetered, meterable, type PathRules } from '../operations/operations.ts'

/** The operations on which such servers do so; of a list of responses they report all. */
const operations: ReadonlySet<string> = new Set([meterable.chat, meterable.completions])

/**
 * Whether requests of this operation may ask for one answer only, because the others would not be counted: so
 * says the ModelRef, or else its server, where that is llama.cpp's.
 */
export function takesOneAnswer(
  model: Model,
  operation: string,
  rules: PathRules,
  { servedNames }: Pick<Snapshot, 'servedNames'>,
): boolean {
  if (!operations.has(operation) || !isMetered(operation, rules)) return false
  return !(model.resource.output?.usageOfAllAnswers ?? !servedNames.isLlamaCpp(model))
}

/**
 * What is wrong with a request of that kind; undefined: it asks for one answer. `size` is what the gateway has
 * read; an unknown number is taken for one.
 */
export function refuseAnswers(size: {
  readonly choices?: number | undefined
  readonly problem?: string | undefined
}): string | undefined {
  const { choices = 1, problem } = size
  if (problem !== undefined || choices <= 1) return problem
  return (
    `it asks for ${choices} answers, and the usage that the server of this model reports is that of one; ` +
    'ask for one at a time (n, n_cmpl, best_of, prompt); spec.output.usageOfAllAnswers: true of the ModelRef lets more pass'
  )
}
