/**
 * Reads the connection to a model's server: the fields of a ModelRef, and the original's
 * ExternalModel.
 */

import { parseDuration } from '../formats/duration.ts'
import type { Field } from '../formats/fields.ts'
import type { Metadata } from '../kinds/metadata.ts'
import {
  type Credential,
  type ExternalModel,
  idleSeconds,
  type ModelServer,
} from '../kinds/resources.ts'
import { credentialRule } from './model-server-schema.ts'

/** The defaults of a ModelRef that gives only the address of its server. */
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

/** Reads the connection fields of `spec`. Only a name may have several addresses to retry at. */
export function readModelServer(spec: Field, isName: boolean): ModelServer {
  const timeouts = spec.inside('timeouts')
  return {
    credential: readCredential(spec.at('credential')),
    upstreamModel: spec.at('upstreamModel').string(),
    caFile: spec.at('caFile').string(),
    connectMs: readTime(timeouts.at('connect'), 60_000, '1m') ?? usualServer.connectMs,
    idleMs: readIdle(timeouts.at('idle')),
    answerMs: readTime(timeouts.at('answer'), 86_400_000, '24h'),
    retries: spec.at('retries').integer() ?? (isName ? usualServer.retries : 0),
    allPaths: spec.at('paths').string() === 'all',
  }
}

function readCredential(field: Field): Credential | undefined {
  if (!field.present || !field.object()) return undefined
  const header = (field.at('header').string() ?? 'authorization').toLowerCase()
  const reference = field.at('secretRef')
  const file = field.at('file').string()
  if (field.at('file').present === reference.present) field.problem(credentialRule.message)
  return {
    header,
    prefix: field.at('prefix').string() ?? (header === 'authorization' ? 'Bearer ' : ''),
    file,
    secretRef: readSecretRef(reference),
  }
}

function readSecretRef(field: Field): Credential['secretRef'] {
  if (!field.present || !field.object()) return undefined
  return { name: field.at('name').requiredString(), key: field.at('key').requiredString() }
}

/** Milliseconds of a duration between one millisecond and `longest`. */
function readTime(field: Field, longestMs: number, longest: string): number | undefined {
  const written = field.string()
  if (written === undefined) return undefined
  const milliseconds = millisecondsOf(written)
  if (milliseconds >= 1 && milliseconds <= longestMs) return milliseconds
  field.problem(`must be a duration like 500ms, 30s or 10m, at most ${longest}`)
  return undefined
}

/** 0 if it is not a duration. */
function millisecondsOf(written: string): number {
  return Number(/^(\d{1,9})ms$/.exec(written)?.[1] ?? parseDuration(written) ?? 0)
}

function readIdle(field: Field): number | undefined {
  const written = field.string()
  if (written === undefined) return undefined
  const milliseconds = millisecondsOf(written)
  if (idleSeconds.some((seconds) => seconds * 1_000 === milliseconds)) return milliseconds
  field.problem('must be one of 10s, 30s, 1m, 2m, 5m, 10m, 15m, 30m, 1h')
  return undefined
}

/** The key headers of these providers; all others use OpenAI's. */
const keyHeaders: Readonly<Record<string, string>> = {
  anthropic: 'x-api-key',
  azure: 'api-key',
  'azure-openai': 'api-key',
}

/**
 * The original's ExternalModel: a provider's address, its name for the model, and our key there.
 */
export function readExternalModel(root: Field, metadata: Metadata): ExternalModel {
  const spec = root.at('spec')
  spec.object()
  const provider = spec.at('provider').requiredString()
  const endpoint = spec.at('endpoint').requiredString()
  const reference = spec.at('credentialRef')
  const header = Object.hasOwn(keyHeaders, provider) ? keyHeaders[provider] : undefined
  if (endpoint !== '' && !URL.canParse(`https://${endpoint}`)) {
    spec.at('endpoint').problem('has a port that is none')
  }
  const name = reference.object() ? reference.at('name').requiredString() : ''
  return {
    kind: 'ExternalModel',
    metadata,
    backendUrl: `https://${endpoint}`,
    server: {
      ...usualServer,
      upstreamModel: spec.at('targetModel').string(),
      credential: {
        header: header ?? 'authorization',
        prefix: header === undefined ? 'Bearer ' : '',
        file: name,
        secretRef: { name, key: 'api-key' },
      },
    },
  }
}
