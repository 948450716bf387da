/** Memoizes functions. */

import { haveSameItems } from './lists.ts'

/**
 * Remembers the last value for each key, an object, as long as the other inputs `from` are the same, too; `make` gets the
 * value before.
 */
export function memoizeLast<Key extends object, Value>() {
  const known = new WeakMap<Key, { readonly from: readonly unknown[]; readonly value: Value }>()
  return (
    key: Key,
    from: readonly unknown[],
    make: (before: Value | undefined) => Value,
  ): Value => {
    const last = known.get(key)
    if (last !== undefined && haveSameItems(last.from, from)) return last.value
    const value = make(last?.value)
    known.set(key, { from, value })
    return value
  }
}

/**
 * Memoizes a function of a text, for texts that are few and recur, as in lines. Beyond `max` entries it forgets all,
 * and it does not store undefined, so that hostile texts cost no more than calling `work`.
 */
export function memoize<Value>(
  max: number,
  work: (text: string) => Value,
): (text: string) => Value {
  const known = new Map<string, Value>()
  return (text) => {
    const found = known.get(text)
    if (found !== undefined) return found
    const value = work(text)
    if (value === undefined) return value
    if (known.size >= max) known.clear()
    known.set(text, value)
    return value
  }
}

/**
 * Returns the text, interned by the engine as a property name. Maps and sets compare such texts by address; others,
 * such as slices of longer texts, byte by byte outside of compiled code.
 */
export function intern(text: string): string {
  return Object.keys({ [text]: true })[0] as string
}
