/**
 * The original's newer ExternalModel with its ExternalProviders → an ExternalModel, whose requests
 * all go to one provider.
 */

import { memoizeLast } from '../../../formats/memoize.ts'
import type { ExternalModel, ExternalProvider, ProvidedModel } from '../../../kinds/resources.ts'
import { defaultServer, toExternalModel } from '../reading/parse-model-server.ts'
import type { ResourceProblem } from '../snapshot.ts'

interface Provided {
  readonly external: ExternalModel
  /** Fields that have no equivalent here. */
  readonly problems: readonly Omit<ResourceProblem, 'resource'>[]
}

/** The path of each format of a provider, where the model's base URL ends. */
const paths: Readonly<Record<string, string>> = {
  'openai-chat': '/v1/chat/completions',
  messages: '/v1/messages',
}

const refs = ['spec', 'externalProviderRefs']

const remembered = memoizeLast<ProvidedModel, Provided>()

/**
 * Chooses the provider with the greatest weight, the first of several, among those that can be
 * served. `providerOf` finds an ExternalProvider of the model's namespace. The same inputs return
 * the same object.
 */
export function chooseProvider(
  model: ProvidedModel,
  providerOf: (name: string) => ExternalProvider | undefined,
): Provided {
  const from = model.externalProviderRefs.map(({ ref }) => providerOf(ref.name))
  return remembered(model, from, () => choose(model, from))
}

type Reference = ProvidedModel['externalProviderRefs'][number]

/** A reference, and its provider, or why it cannot be served. */
interface Option {
  readonly reference: Reference
  readonly found: { readonly provider: ExternalProvider; readonly basePath: string } | string
}

function choose(
  { metadata, modelName, externalProviderRefs }: ProvidedModel,
  providers: readonly (ExternalProvider | undefined)[],
): Provided {
  const options = externalProviderRefs.map((reference, index) => ({
    reference,
    found: optionOf(reference, providers[index]),
  }))
  let chosen: Option | undefined
  for (const option of options) {
    const { weight } = option.reference
    if (typeof option.found === 'string' || weight === 0) continue
    if (chosen === undefined || weight > chosen.reference.weight) chosen = option
  }
  if (chosen === undefined || typeof chosen.found === 'string') {
    const reasons = options.map(
      ({ reference, found }) =>
        `${reference.ref.name} ${typeof found === 'string' ? found : 'has the weight 0'}`,
    )
    const missing = `the ExternalModel ${metadata.name} has no usable provider: ${reasons.slice(0, 5).join('; ')}`
    const external: ExternalModel = {
      kind: 'ExternalModel',
      metadata,
      modelName,
      missing,
      backendUrl: undefined,
      server: defaultServer,
    }
    return { external, problems: [{ path: refs, message: `cannot be served: ${missing}` }] }
  }
  const { reference, found } = chosen
  const { provider, basePath } = found
  const { endpoint, auth } = provider
  const external = toExternalModel(metadata, {
    // The format determines the header of the key, not the provider's name.
    provider: reference.apiFormat === 'messages' ? 'anthropic' : provider.provider,
    endpoint,
    targetModel: reference.targetModel,
    credentialRef: (reference.auth ?? auth).secretRef,
  })
  const backendUrl = `${external.backendUrl}${basePath}`
  return {
    external: { ...external, backendUrl, modelName },
    problems: options.flatMap((option, index) => problemsOf(option, index, chosen)),
  }
}

function optionOf(
  { ref, apiFormat, path, auth }: Reference,
  provider: ExternalProvider | undefined,
): Option['found'] {
  if (provider === undefined) return `names the ExternalProvider ${ref.name}, which does not exist`
  const { type } = auth ?? provider.auth
  if (type !== 'simple' && type !== 'apikey') return `authenticates with ${type}`
  const end = Object.hasOwn(paths, apiFormat) ? paths[apiFormat] : undefined
  if (end === undefined) return `has the apiFormat ${apiFormat}`
  const whole = path ?? end
  if (/[{}]/.test(whole)) return 'has a path with placeholders'
  if (!whole.endsWith(end)) return `has a path that does not end in ${end}`
  return { provider, basePath: whole.slice(0, -end.length) }
}

function problemsOf(option: Option, index: number, chosen: Option): Provided['problems'] {
  const { reference, found } = option
  const path = [...refs, index]
  if (option === chosen) {
    const { config = {} } = reference
    const inherited = typeof found === 'string' ? {} : (found.provider.config ?? {})
    const names = Object.keys({ ...inherited, ...config })
    return names.length === 0 ? [] : [{ path: [...path, 'config'], message: 'is not read' }]
  }
  if (reference.weight === 0) return []
  const reason =
    typeof found === 'string' ? `${found}, which cannot be served` : 'gets no share of the requests'
  return [{ path, message: `${reason}: all traffic is routed to ${chosen.reference.ref.name}` }]
}
