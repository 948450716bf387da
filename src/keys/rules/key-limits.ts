/** Limits by name of one key, read by the same rules as a resource's; they count the use of the key. */

import { readFields } from '../../formats/fields.ts'
import { quoteName } from '../../formats/redact.ts'
import { object, text } from '../../formats/schema.ts'
import { limitedModelsSchema, namedLimitsSchema, toNamedLimit } from '../../kinds/limit-schemas.ts'
import type { LimitKind, NamedLimit } from '../../kinds/limits.ts'
import { keyOfModel, type ModelReference } from '../../kinds/resources.ts'

/** As in a request; missing fields have their defaults. */
export interface KeyLimit {
  readonly name: string
  readonly of?: LimitKind
  /** Tokens or requests; of `cost` a decimal number. */
  readonly limit: number | string
  /** `1h`, `day`; left out of `concurrency`. */
  readonly window?: string
  /** Left out: all that the key may call. */
  readonly models?: readonly ModelReference[]
  readonly enforce?: boolean
}

const name = text({ minLength: 1, maxLength: 253 })
/** A model in a cap. */
export const cappedModelSchema = object({ namespace: name, name })

export const keyLimitsSchema = namedLimitsSchema(['key'], 'limits on the use of the key', {
  models: limitedModelsSchema(cappedModelSchema, 'all'),
})

/** The valid limits. */
export function parseKeyLimits(written: readonly KeyLimit[]): readonly NamedLimit[] {
  return readFields(written, keyLimitsSchema, []).map(toNamedLimit)
}

/** How `next` allows more than `before`, as a sentence that begins with the field. */
export function describeLimitWidening(
  before: readonly KeyLimit[],
  next: readonly KeyLimit[],
): string | undefined {
  const after = parseKeyLimits(next)
  for (const [i, had] of parseKeyLimits(before).entries()) {
    const at = after.findIndex((each) => each.name === had.name)
    const has = after[at]
    if (has === undefined) return `limits must keep ${quoteName(had.name)}.`
    const field = (name: string) => `limits[${at}].${name}`
    if (has.of !== had.of) return `${field('of')} must stay ${had.of}.`
    if (has.windowMs !== had.windowMs || (had.windowMs === 0 && has.window !== had.window)) {
      return `${field('window')} must stay ${had.window}.`
    }
    if (modelsIn(has) !== modelsIn(had)) return `${field('models')} must stay as they are.`
    if (has.limit > had.limit) return `${field('limit')} must be at most ${before[i]?.limit}.`
    if (had.enforce && !has.enforce) return `${field('enforce')} must stay true.`
  }
  return undefined
}

/** Equal texts for equal sets of models; empty for all models. */
function modelsIn({ models = [] }: NamedLimit): string {
  return [...new Set(models.map(keyOfModel))].sort().join(' ')
}
