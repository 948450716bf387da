/** Display names and descriptions: the annotations of a resource (contract, 3.7 and 3.8). */

import type { Metadata } from '../../kinds/metadata.ts'

/** Empty strings for missing annotations. */
export interface Display {
  readonly displayName: string
  readonly description: string
}

export function displayOf({ annotations }: Metadata): Display {
  return {
    displayName: annotations['openshift.io/display-name'] ?? '',
    description: annotations['openshift.io/description'] ?? '',
  }
}

/** Additional fields of models. */
export interface ModelDisplay extends Display {
  readonly genaiUseCase: string
  readonly contextWindow: string
  readonly modelCapabilities: readonly string[]
}

export function modelDisplayOf(metadata: Metadata): ModelDisplay {
  return {
    ...displayOf(metadata),
    genaiUseCase: metadata.annotations['opendatahub.io/genai-use-case'] ?? '',
    contextWindow: metadata.annotations['opendatahub.io/context-window'] ?? '',
    modelCapabilities: readCapabilities(metadata.annotations['opendatahub.io/model-capabilities']),
  }
}

/** A JSON array of strings; anything else counts as none. */
function readCapabilities(raw = '[]'): readonly string[] {
  try {
    const list: unknown = JSON.parse(raw)
    return Array.isArray(list) && list.every((each) => typeof each === 'string') ? list : []
  } catch {
    return []
  }
}
