/** `GET /v1/models` and `GET /v1/models/<id>`. */

import type { Json } from './dialect.ts'
import { Refusal } from './refusal.ts'

/** OpenAI's list of the served models. */
export function listModels(ids: readonly string[]): Json {
  return { object: 'list', data: ids.map(toModel) }
}

/** One model of the list. Throws Refusal 404 for an id that is not on the list. */
export function retrieveModel(ids: readonly string[], id: string): Json {
  if (ids.includes(id)) return toModel(id)
  throw new Refusal(404, 'model_not_found', `The model ${JSON.stringify(id)} does not exist`)
}

function toModel(id: string): Json {
  // A fixed instant, 2024-01-01; no test compares it.
  return { id, object: 'model', created: 1_704_067_200, owned_by: 'tollgate' }
}
