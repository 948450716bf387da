/** Display names and descriptions: the annotations of a resource (contract, 3.7 and 3.8). */

import { parseJson } from '../../formats/parse-json.ts'
import type { Metadata } from '../../kinds/metadata.ts'

export type Display = ReturnType<typeof displayOf>

/** Empty strings for missing annotations. */
export function displayOf({ annotations }: Metadata) {
  return {
    displayName: annotations['openshift.io/display-name'] ?? '',
    description: annotations['openshift.io/description'] ?? '',
  }
}

export type ModelDisplay = ReturnType<typeof modelDisplayOf>

/** With the additional fields of models. */
export function modelDisplayOf(metadata: Metadata) {
  return {
    ...displayOf(metadata),
    genaiUseCase: metadata.annotations['opendatahub.io/genai-use-case'] ?? '',
    contextWindow: metadata.annotations['opendatahub.io/context-window'] ?? '',
    modelCapabilities: readCapabilities(metadata.annotations['opendatahub.io/model-capabilities']),
  }
}

/** A JSON array of strings; anything else counts as none. */
function readCapabilities(raw = '[]'): readonly string[] {
  const list = parseJson(raw)
  return Array.isArray(list) && list.every((each) => typeof each === 'string') ? list : []
}
