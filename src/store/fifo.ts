/** A queue, first in, first out, that counts what has passed it. */

export type Fifo<Item> = ReturnType<typeof createFifo<Item>>

/** Push, take and put back cost a constant time per item, however long it is. */
export function createFifo<Item>() {
  let items: Item[] = []
  let head = 0
  let left = 0
  return {
    get size(): number {
      return items.length - head
    },
    /** The number of items that were pushed, and of those taken, so far. */
    get pushed(): number {
      return left + items.length - head
    },
    get left(): number {
      return left
    },
    /** A copy of what is in it. */
    all: (): readonly Item[] => items.slice(head),
    at: (index: number): Item | undefined => items[head + index],
    push(item: Item): void {
      items.push(item)
    },
    /** Puts these before the others, as the next to be taken. */
    putBack(taken: readonly Item[]): void {
      items = [...taken, ...items.slice(head)]
      head = 0
    },
    /** Takes the last one; undefined if there is none. */
    pop: (): Item | undefined => (head < items.length ? items.pop() : undefined),
    /** Takes up to `limit` of them. */
    take(limit: number): Item[] {
      if (limit === 0 || head === items.length) return []
      const taken = items.slice(head, head + limit)
      head += taken.length
      left += taken.length
      if (head > items.length / 2) {
        items = items.slice(head)
        head = 0
      }
      return taken
    },
  }
}
