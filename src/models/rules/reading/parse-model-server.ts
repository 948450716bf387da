/** The connection to a model's server: the fields of a ModelRef, and the original's ExternalModel. */

import type { Metadata } from '../../../kinds/metadata.ts'
import { millisecondsOf } from '../../../kinds/model-server-schema.ts'
import type {
  ExternalModel,
  ModelServer,
  ServerCredential,
  Spec,
} from '../../../kinds/resources.ts'
import { hasHostName } from '../snapshot.ts'

/** The defaults of a ModelRef that gives only the address of its server. */
export const defaultServer: ModelServer = {
  credential: undefined,
  upstreamModel: undefined,
  caFile: undefined,
  connectMs: 5_000,
  idleMs: undefined,
  answerMs: undefined,
  retries: 2,
  allPaths: false,
}

/** Retries by default only at a host name, which may have several addresses. */
export function toModelServer(spec: Spec<'ModelRef'>): ModelServer {
  const { connect, idle, answer } = spec.timeouts ?? {}
  const isName = spec.backendUrl === undefined || hasHostName(spec.backendUrl)
  return {
    credential: spec.credential && toCredential(spec.credential),
    upstreamModel: spec.upstreamModel,
    caFile: spec.caFile,
    connectMs: connect === undefined ? defaultServer.connectMs : millisecondsOf(connect),
    idleMs: idle === undefined ? undefined : millisecondsOf(idle),
    answerMs: answer === undefined ? undefined : millisecondsOf(answer),
    retries: spec.retries ?? (isName ? defaultServer.retries : 0),
    allPaths: spec.paths === 'all',
  }
}

function toCredential(raw: NonNullable<Spec<'ModelRef'>['credential']>): ServerCredential {
  const { file, secretRef } = raw
  const header = (raw.header ?? 'authorization').toLowerCase()
  const prefix = raw.prefix ?? (header === 'authorization' ? 'Bearer ' : '')
  return { header, prefix, file, secretRef }
}

/** The key headers of these providers; all others use OpenAI's. */
const keyHeaders: Readonly<Record<string, string>> = {
  anthropic: 'x-api-key',
  azure: 'api-key',
  'azure-openai': 'api-key',
}

/** The original's ExternalModel: a provider's address, its name for the model, and our key there. */
export function toExternalModel(metadata: Metadata, spec: Spec<'ExternalModel'>): ExternalModel {
  const { provider, endpoint, targetModel, credentialRef } = spec
  const header = Object.hasOwn(keyHeaders, provider) ? keyHeaders[provider] : undefined
  const { name } = credentialRef
  return {
    kind: 'ExternalModel',
    metadata,
    backendUrl: `https://${endpoint}`,
    server: {
      ...defaultServer,
      upstreamModel: targetModel,
      credential: {
        header: header ?? 'authorization',
        prefix: header === undefined ? 'Bearer ' : '',
        file: name,
        secretRef: { name, key: 'api-key' },
      },
    },
  }
}
