/** A hold that ends with its lease leaves its entry here. */
const maxEntries = 10_000

/** Who has asked for a hold again; for most nobody has. */
export function createAskers() {
  /** By id. */
  const others = new Map<string, number>()
  return {
    again(id: string): void {
      if (others.size >= maxEntries) others.clear()
      others.set(id, (others.get(id) ?? 0) + 1)
    },
    /** Whether it was the last one. */
    leave(id: string): boolean {
      const left = others.get(id)
      if (left === undefined) return true
      if (left > 1) others.set(id, left - 1)
      else others.delete(id)
      return false
    },
    forget(id: string): void {
      if (others.size > 0) others.delete(id)
    },
  }
}
