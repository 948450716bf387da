/**
 * The same function, which works once for each text while it remembers it: for texts that are few and come again, as in
 * lines. Beyond `max` all are forgotten, and undefined is not remembered, so that hostile texts cost no more than work.
 */
export function remember<Value>(
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
 * The same text, as the engine keeps names of properties: once. Maps and sets compare such texts by address, and others
 * byte by byte, a slice of a longer one outside of compiled code.
 */
export function intern(text: string): string {
  return Object.keys({ [text]: true })[0] as string
}
