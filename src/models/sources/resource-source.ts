/** A source of resources. */

import type { FieldPath } from '../../formats/fields.ts'
import type { Resource } from '../../kinds/resources.ts'
import type { RefusedResource } from '../rules/refused-resources.ts'
import type { FileProblem } from './documents.ts'

/** All resources of a source, and the problems of what they were read from. */
export interface Contents {
  /** With unique keys. An unchanged one is the same object as before. */
  readonly resources: readonly Resource[]
  readonly problems: readonly FileProblem[]
  /** Documents about models that are not in force. An unchanged one is the same object. */
  readonly refused: readonly RefusedResource[]
  /** Files that were there when this process started and could never be read: what was in force of them is not known. */
  readonly unknown?: readonly string[]
  /** Whether a document or a file is illegible, so that it may have any resource. */
  readonly hasIllegible?: boolean
  /** The problem of a resource's field, with its place in the source. */
  locate(resource: string, path: FieldPath, message: string): FileProblem
}

export interface ResourceSource {
  /**
   * All resources, as soon as they differ from the last result; the first result comes at once. Rejects if the source
   * cannot be read, and may then be called again, or if `signal` is aborted. Calls must not overlap.
   */
  next(signal: AbortSignal): Promise<Contents>
}
