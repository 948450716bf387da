/** Compilers of the routes' schemas that do their work when a schema is first used. */

import ajvCompiler from '@fastify/ajv-compiler'
import stringifyCompiler from '@fastify/fast-json-stringify-compiler'
import type { FastifyServerOptions } from 'fastify'

type Compilers = NonNullable<
  NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']
>
type Options = Parameters<ReturnType<typeof ajvCompiler>>

const buildValidator = ajvCompiler()
const buildSerializer = stringifyCompiler()

/**
 * Fastify's own compilers, called for a schema at its first use. All schemas at once take nearly half of the CPU
 * time of a start, and a process uses few of them.
 */
export const compileLater = {
  buildValidator(...given: Options) {
    const compile = buildValidator(...given)
    return ({ schema }: { schema: object }) => {
      const validate = once(() => compile({ schema }))
      return (value: unknown) => validate()(value) === true || { error: validate().errors }
    }
  },
  buildSerializer(...given: Parameters<typeof buildSerializer>) {
    const compile = buildSerializer(...given)
    return (route: Parameters<typeof compile>[0]) => {
      const serialize = once(() => compile(route))
      return (value: unknown) => serialize()(value)
    }
  },
} as unknown as Compilers

function once<T>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}
