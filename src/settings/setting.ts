/** The parts of a setting. */

import type { Reader } from './readers.ts'

export interface Setting<T> {
  readonly name: string
  /** As it would be written. undefined: `otherwise` describes the default. */
  readonly fallback: string | undefined
  readonly otherwise: string
  readonly reader: Reader<T>
  /** A line of Markdown. */
  readonly meaning: string
}

/** A setting with a default. */
export function setting<T>(
  name: string,
  fallback: string,
  reader: Reader<T>,
  meaning: string,
): Setting<T> {
  return { name, fallback, otherwise: '', reader, meaning }
}

/** A setting that is undefined unless it is set. */
export function optional<T>(
  name: string,
  otherwise: string,
  reader: Reader<T>,
  meaning: string,
): Setting<T | undefined> {
  return { name, fallback: undefined, otherwise, reader, meaning }
}
