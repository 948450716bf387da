/** What people are shown instead of names: the annotations of a resource (contract, 3.7 and 3.8). */

import type { Metadata } from './resources.ts'

/** Empty strings where nothing is annotated. */
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

/** What models tell besides. */
export interface ModelDisplay extends Display {
  readonly genaiUseCase: string
  readonly contextWindow: string
}

export function modelDisplayOf(metadata: Metadata): ModelDisplay {
  return {
    ...displayOf(metadata),
    genaiUseCase: metadata.annotations['opendatahub.io/genai-use-case'] ?? '',
    contextWindow: metadata.annotations['opendatahub.io/context-window'] ?? '',
  }
}
