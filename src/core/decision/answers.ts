/** Requests for several answers, of a model whose server reports the usage of one of them only. */

import type { ModelRef } from '../kinds/resources.ts'
import { isMetered, meterable, type PathRules } from './operations.ts'

/** The operations on which such servers do so; of a list of responses they report all. */
const operations: ReadonlySet<string> = new Set([meterable.chat, meterable.completions])

/** Whether requests of this operation may ask for one answer only, because the others would not be counted. */
export function takesOneAnswer({ output }: ModelRef, operation: string, rules: PathRules): boolean {
  return (
    output?.usageOfAllAnswers === false && operations.has(operation) && isMetered(operation, rules)
  )
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
    'ask for one at a time (n, n_cmpl, best_of, prompt); spec.output.usageOfAllAnswers of the ModelRef says so'
  )
}
