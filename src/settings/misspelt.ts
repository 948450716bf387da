/** Environment variables that are probably misspelled settings. */

import { nearestName } from '../formats/nearest-name.ts'
import { settings } from './all-settings.ts'

const names: readonly string[] = Object.values(settings).map(({ name }) => name)
const known = new Set(names.flatMap((name) => [name, `${name}_FILE`]))
/** By their letters alone: `loglevel`, `REDISURL` and `redis-url` are meant as settings, too. */
const byLetters = new Map(names.map((name) => [lettersOf(name), name]))
/** Names with an underscore, except OpenTelemetry's: its SDK reads further variables with similar names. */
const form = /^(?!OTEL_)[A-Z][A-Z0-9]*_[A-Z0-9_]+$/

/** Each name that is not a setting but resembles one, with that one. None is refused: other programs may read it. */
export function misspeltSettings(
  env: Readonly<Record<string, string | undefined>>,
): readonly { readonly name: string; readonly meant: string }[] {
  return Object.keys(env).flatMap((name) => {
    if (known.has(name)) return []
    const spelt = byLetters.get(lettersOf(name))
    if (spelt !== undefined) return [{ name, meant: spelt }]
    if (!form.test(name)) return []
    const meant = nearestName(name, names)
    // The first letter is seldom wrong, and many programs use similar names.
    return meant?.[0] === name[0] ? [{ name, meant: meant as string }] : []
  })
}

function lettersOf(name: string): string {
  return name.replace(/[_-]/g, '').toUpperCase()
}
