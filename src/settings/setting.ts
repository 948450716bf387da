/** What a setting is made of. */

import type { Reader } from './readers.ts'

export interface Setting<T> {
  readonly name: string
  /** As it would be written. undefined: `otherwise` says in words what holds then. */
  readonly fallback: string | undefined
  readonly otherwise: string
  readonly reader: Reader<T>
  /** A line of Markdown. */
  readonly meaning: string
}

/** One with a default. */
export function setting<T>(
  name: string,
  fallback: string,
  reader: Reader<T>,
  meaning: string,
): Setting<T> {
  return { name, fallback, otherwise: '', reader, meaning }
}

/** One that is undefined unless it is set. */
export function optional<T>(
  name: string,
  otherwise: string,
  reader: Reader<T>,
  meaning: string,
): Setting<T | undefined> {
  return { name, fallback: undefined, otherwise, reader, meaning }
}
