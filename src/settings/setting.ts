/** The parts of a setting, and how its value is read from the environment. */

import { readFileSync } from 'node:fs'
import { invalid, type Reader } from './readers.ts'

export interface Setting<T> {
  readonly name: string
  /** The default as it would be written; `otherwise` describes it if this is undefined. */
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

export type Environment = Readonly<Record<string, string | undefined>>

/** The value; if it is invalid, the default, and a problem is recorded. */
export function readSetting<T>(env: Environment, setting: Setting<T>, problems: string[]): T {
  const file = env[`${setting.name}_FILE`]
  return parseSetting(textOf(env, setting.name, problems), setting, problems, file)
}

/** The value of a setting's text, from `file` if given; the default if it is absent or invalid, which is recorded as a problem. */
export function parseSetting<T>(
  raw: string | undefined,
  { name, fallback, reader }: Setting<T>,
  problems: string[],
  file?: string,
): T {
  const value = raw === undefined ? invalid : reader.read(raw)
  if (value !== invalid) return value
  if (raw !== undefined) {
    const shown = reader.secret ? '' : `, is ${JSON.stringify(raw)}`
    const from = file ? ` (from ${name}_FILE)` : ''
    problems.push(`${name}: must be ${reader.form.replaceAll('`', '')}${shown}${from}`)
  }
  // The table's defaults are valid, and a setting without one may be undefined.
  return (fallback === undefined ? undefined : reader.read(fallback)) as T
}

/** The text of NAME, or of the file that NAME_FILE names; undefined if neither is set. */
export function textOf(env: Environment, name: string, problems: string[]): string | undefined {
  const file = env[`${name}_FILE`]
  if (!file) return env[name]?.trim() || undefined
  if (env[name]) problems.push(`${name}: set either ${name} or ${name}_FILE, not both`)
  try {
    const text = readFileSync(file, 'utf8').trim()
    // Otherwise a secret that is not filled in yet would start an embedded database, or counters in memory.
    if (text === '') problems.push(`${name}_FILE: ${file} is empty`)
    return text || undefined
  } catch {
    problems.push(`${name}_FILE: cannot read ${file}`)
    return undefined
  }
}

/** The environment with these values, whether it has others in variables or in files. */
export function withSettings(
  env: Environment,
  values: Environment,
): Record<string, string | undefined> {
  const named = { ...env, ...values }
  for (const name of Object.keys(values)) delete named[`${name}_FILE`]
  return named
}
