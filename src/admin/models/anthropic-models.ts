/** `GET /v1/models` and `GET /v1/models/{id}` in Anthropic's format, for its clients. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { toTimestamp } from '../../formats/time.ts'
import type { ListedModel } from '../../models/rules/model-list.ts'

/** Whether the client speaks Anthropic's API: all of its clients send this header. */
export function isAnthropicClient({ headers }: FastifyRequest): boolean {
  return headers['anthropic-version'] !== undefined
}

/** All on one page; `limit` is ignored. */
export function sendAnthropicList(reply: FastifyReply, models: readonly ListedModel[]): unknown {
  const data = models.map(toModelJson)
  const [first, last] = [data[0]?.id ?? null, data.at(-1)?.id ?? null]
  return asWritten(reply).send({ data, has_more: false, first_id: first, last_id: last })
}

export function sendAnthropicModel(reply: FastifyReply, model: ListedModel): unknown {
  return asWritten(reply).send(toModelJson(model))
}

/** The documented schema describes OpenAI's format. */
function asWritten(reply: FastifyReply): FastifyReply {
  return reply.type('application/json; charset=utf-8').serializer(JSON.stringify)
}

function toModelJson({ id, created, details }: ListedModel) {
  return {
    type: 'model',
    id,
    display_name: details.displayName || id,
    created_at: toTimestamp(created * 1_000),
  }
}
