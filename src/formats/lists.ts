/** Helpers for maps and lists: values added when they are first asked for, lists compared, or shortened. */

/** Adds a value to the list of this key. */
export function appendTo<Key, Value>(lists: Map<Key, Value[]>, key: Key, value: Value): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [value])
  else list.push(value)
}

/** The value of this key, which is `make`'s result if there is none yet. */
export function getOrAdd<Key, Value>(
  map: { get(key: Key): Value | undefined; set(key: Key, value: Value): unknown },
  key: Key,
  make: () => Value,
): Value {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

/** Whether both have the same values in the same order. */
export function haveSameItems(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((each, index) => each === b[index])
}

/** Inserts a name into a sorted list and truncates it to `max`. */
export function insertSorted(names: string[], name: string, max: number): void {
  if (names.length === max && name > (names.at(-1) as string)) return
  let [low, high] = [0, names.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((names[middle] as string) < name) low = middle + 1
    else high = middle
  }
  names.splice(low, 0, name)
  if (names.length > max) names.pop()
}

/** The first `max` of `count` texts, and how many more there are. */
export function joinFirst(texts: readonly string[], max: number, count = texts.length): string {
  const shown = texts.slice(0, max)
  const more = count - shown.length
  return `${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}
