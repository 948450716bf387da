/** How a model's server is spoken to: the fields of a ModelRef, and the original's ExternalModel. */

import { parseDuration } from './duration.ts'
import type { Field } from './fields.ts'
import {
  type Credential,
  type ExternalModel,
  idleSeconds,
  type Metadata,
  type ModelServer,
} from './resources.ts'

/** Of a ModelRef that says nothing of its server but where it is. */
export const usualServer: ModelServer = {
  credential: undefined,
  upstreamModel: undefined,
  caFile: undefined,
  connectMs: 5_000,
  idleMs: undefined,
  answerMs: undefined,
  retries: 2,
  allPaths: false,
}

/** A name in a folder, and not the way to another one. */
const fileRule = {
  min: 1,
  max: 253,
  pattern: /^(?!\.{1,2}$)[\w.-]+$/,
  form: 'a file name of letters, digits, ".", "-" and "_"',
}
const headerRule = {
  min: 1,
  max: 128,
  pattern: /^[A-Za-z0-9-]+$/,
  form: 'the name of a header: letters, digits and "-"',
}
/** It stands in a header on its way, and between quotes in a body. */
const upstreamRule = {
  min: 1,
  max: 256,
  pattern: /^[!#-[\]-~]+$/,
  form: 'of visible ASCII without ", \\ and blanks',
}
const prefixRule = {
  max: 64,
  pattern: /^(?:[!-~][ -~]*)?$/,
  form: 'of visible ASCII',
}

/** Headers that are not the resource's to set: of the connection, the body, and our own. */
const ownHeaders =
  /^(?:host|connection|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade|expect|content-.*|accept-encoding|x-request-id|x-(?:tollgate|envoy|forwarded|maas)-.*)$/

/**
 * Reads the fields of `spec` that say how the server is spoken to. An address that is no name has no
 * other beside it to be tried.
 */
export function readModelServer(spec: Field, isName: boolean): ModelServer {
  const timeouts = spec.at('timeouts')
  if (timeouts.present) timeouts.object()
  return {
    credential: readCredential(spec.at('credential')),
    upstreamModel: spec.at('upstreamModel').string(upstreamRule),
    caFile: spec.at('caFile').string(fileRule),
    connectMs: readTime(timeouts.at('connect'), 60_000) ?? usualServer.connectMs,
    idleMs: readIdle(timeouts.at('idle')),
    answerMs: readTime(timeouts.at('answer'), 86_400_000),
    retries: spec.at('retries').integer({ min: 0, max: 5 }) ?? (isName ? usualServer.retries : 0),
    allPaths: spec.at('paths').string({ oneOf: ['known', 'all'] }) === 'all',
  }
}

function readCredential(field: Field): Credential | undefined {
  if (!field.present || !field.object()) return undefined
  const written = field.at('header').string(headerRule) ?? 'authorization'
  const header = written.toLowerCase()
  if (ownHeaders.test(header)) field.at('header').problem('is not free to be set')
  return {
    header,
    prefix: field.at('prefix').string(prefixRule) ?? (header === 'authorization' ? 'Bearer ' : ''),
    file: field.at('file').requiredString(fileRule),
  }
}

/** Milliseconds of a duration from a millisecond to `longestMs`. */
function readTime(field: Field, longestMs: number): number | undefined {
  const written = field.string()
  if (written === undefined) return undefined
  const milliseconds = Number(/^(\d{1,9})ms$/.exec(written)?.[1] ?? parseDuration(written) ?? 0)
  if (milliseconds >= 1 && milliseconds <= longestMs) return milliseconds
  field.problem(`must be a duration like 500ms, 30s or 10m, at most ${longestMs / 60_000}m`)
  return undefined
}

function readIdle(field: Field): number | undefined {
  const written = field.string()
  if (written === undefined) return undefined
  const milliseconds = parseDuration(written)
  if (idleSeconds.some((seconds) => seconds * 1_000 === milliseconds)) return milliseconds
  field.problem('must be one of 10s, 30s, 1m, 2m, 5m, 10m, 15m, 30m, 1h')
  return undefined
}

/** Where providers want their keys; the others take them as OpenAI does. */
const keyHeaders: Readonly<Record<string, string>> = {
  anthropic: 'x-api-key',
  azure: 'api-key',
  'azure-openai': 'api-key',
}

const host = /^(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\.)+[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?::\d{1,5})?$/

/** The original's ExternalModel: a provider's address, its name of the model, and our key there. */
export function readExternalModel(root: Field, metadata: Metadata): ExternalModel {
  const spec = root.at('spec')
  spec.object()
  const provider = spec.at('provider').requiredString({ min: 1, max: 63 })
  const endpoint = spec.at('endpoint').requiredString({
    min: 1,
    max: 253,
    pattern: host,
    form: 'the domain name of a host, like api.example.com',
  })
  const reference = spec.at('credentialRef')
  const header = Object.hasOwn(keyHeaders, provider) ? keyHeaders[provider] : undefined
  if (endpoint !== '' && !URL.canParse(`https://${endpoint}`)) {
    spec.at('endpoint').problem('has a port that is none')
  }
  return {
    kind: 'ExternalModel',
    metadata,
    backendUrl: `https://${endpoint}`,
    server: {
      ...usualServer,
      upstreamModel: spec.at('targetModel').string(upstreamRule),
      credential: reference.object()
        ? {
            header: header ?? 'authorization',
            prefix: header === undefined ? 'Bearer ' : '',
            file: reference.at('name').requiredString(fileRule),
          }
        : undefined,
    },
  }
}
