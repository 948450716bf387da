/** A listener whose handlers get requests of the types that their routes' schemas have. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyTypeProvider,
  RawServerDefault,
} from 'fastify'
import type { JSONSchema } from 'json-schema-to-ts'
import type { BodyOf } from './body.ts'

export interface SchemaTypes extends FastifyTypeProvider {
  readonly validator: this['schema'] extends JSONSchema ? BodyOf<this['schema']> : unknown
  readonly serializer: unknown
}

export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  SchemaTypes
>
