import { fileURLToPath } from 'node:url'
import { loadSync, type MethodDefinition, type ServiceDefinition } from '@grpc/proto-loader'

/**
 * A message as protobufjs encodes and decodes it with Envoy's own proto files; fields in snake
 * case.
 */
export interface Codec {
  encode(message: object): Buffer
  decode(bytes: Buffer): Record<string, unknown>
}

const folders = ['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate'].map((folder) =>
  fileURLToPath(new URL(`../../node_modules/@grpc/grpc-js-xds/deps/${folder}`, import.meta.url)),
)

const packages = loadSync('envoy/service/auth/v3/external_auth.proto', {
  includeDirs: folders,
  keepCase: true,
  longs: Number,
  enums: Number,
})

function methodOf(service: string, method: string): MethodDefinition<object, object> {
  const found = (packages[service] as ServiceDefinition | undefined)?.[method]
  if (found === undefined) throw new Error(`no ${service}/${method}`)
  return found
}

const check = methodOf('envoy.service.auth.v3.Authorization', 'Check')

/** `envoy.service.auth.v3.CheckRequest` */
export const checkRequest: Codec = {
  encode: check.requestSerialize,
  decode: (bytes) => check.requestDeserialize(bytes) as Record<string, unknown>,
}

/** `envoy.service.auth.v3.CheckResponse` */
export const checkResponse: Codec = {
  encode: check.responseSerialize,
  decode: (bytes) => check.responseDeserialize(bytes) as Record<string, unknown>,
}

/** A CheckRequest for a path, as Envoy sends it: GET for a list of models, otherwise POST. */
export function checkOf(
  path: string,
  headers: Readonly<Record<string, string>> = {},
  more: { readonly method?: string; readonly context_extensions?: Record<string, string> } = {},
): Buffer {
  const { method = path.endsWith('/v1/models') ? 'GET' : 'POST', context_extensions = {} } = more
  return checkRequest.encode({
    attributes: { request: { http: { method, path, headers } }, context_extensions },
  })
}

/** The denial in a CheckResponse, with its headers as a map and its body parsed. */
export function readDenial(bytes: Buffer) {
  const { status, denied_response } = checkResponse.decode(bytes) as {
    status: { code: number }
    denied_response?: {
      status: { code: number }
      headers: { header: { key: string; value: string }; append_action: number }[]
      body: string
    }
  }
  if (denied_response === undefined) throw new Error('the request was allowed')
  return {
    grpc: status.code,
    http: denied_response.status.code,
    headers: Object.fromEntries(
      denied_response.headers.map(({ header }) => [header.key, header.value]),
    ),
    body: JSON.parse(denied_response.body) as {
      error: { message: string; type: string; code: string }
    },
  }
}

/** A google.protobuf.Struct for protobufjs, whose built-in version uses camel case. */
export function structOf(values: Readonly<Record<string, unknown>>): object {
  const fields = Object.entries(values).map(([name, value]) => [name, fieldOf(value)])
  return { fields: Object.fromEntries(fields) }
}

function fieldOf(value: unknown): object {
  if (value === null) return { nullValue: 0 }
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'number') return { numberValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  if (Array.isArray(value)) return { listValue: { values: value.map(fieldOf) } }
  return { structValue: structOf(value as Record<string, unknown>) }
}
