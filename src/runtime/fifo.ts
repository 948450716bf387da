/** A queue, first in, first out. */

export type Fifo<Item> = ReturnType<typeof createFifo<Item>>

/** Push and take cost a constant time per item, however long it is. */
export function createFifo<Item>() {
  let items: Item[] = []
  let head = 0
  return {
    get size(): number {
      return items.length - head
    },
    push(item: Item): void {
      items.push(item)
    },
    /** Takes the last one; undefined if there is none. */
    pop: (): Item | undefined => (head < items.length ? items.pop() : undefined),
    /** Takes the first one; undefined if there is none. */
    take(): Item | undefined {
      if (head === items.length) return undefined
      const taken = items[head]
      head += 1
      if (head > items.length / 2) {
        items = items.slice(head)
        head = 0
      }
      return taken
    },
  }
}
