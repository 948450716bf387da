/** Where resources come from. */

import type { FieldPath } from '../core/fields.ts'
import type { Refused } from '../core/refused.ts'
import type { Resource } from '../core/resources.ts'
import type { FileProblem } from './documents.ts'

/** All resources of a source, and what is wrong with what they were read from. */
export interface Gathered {
  /** No two have the same key. One that did not change is the same object as before. */
  readonly resources: readonly Resource[]
  readonly problems: readonly FileProblem[]
  /** What is about models and not in force. One that did not change is the same object. */
  readonly refused: readonly Refused[]
  /** The problem at a field of one of the resources, where it was written. */
  locate(resource: string, path: FieldPath, message: string): FileProblem
}

export interface ResourceSource {
  /**
   * Everything, as soon as it differs from the last answer; the first answer comes at once. Rejects
   * when the source cannot be read, and may be asked again; also when `signal` is aborted. One call
   * at a time.
   */
  next(signal: AbortSignal): Promise<Gathered>
}
