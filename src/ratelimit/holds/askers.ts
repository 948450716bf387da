import { BoundedMap } from '../../runtime/bounded-map.ts'

/** A hold that ends with its lease leaves its entry here. */
const maxEntries = 10_000

/** Who has asked for a hold again; for most nobody has. */
export function createAskers() {
  /** By id. */
  const others = new BoundedMap<string, number>(maxEntries)
  return {
    again(id: string): void {
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
    forget: (id: string): void => others.delete(id),
  }
}
