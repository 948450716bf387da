/** A queue that takes items in turn from the owners that have items waiting. */

import { getOrAdd } from '../formats/lists.ts'

export type FairQueue<Item> = ReturnType<typeof createFairQueue<Item>>

export interface FairQueueSizes {
  /** Maximum number of waiting items in total; by default unlimited. */
  readonly room?: number
  /** Maximum number of items of one owner. */
  readonly roomForOne?: number
}

type Owner = string | typeof pushed

/** The owner of pushed items. */
const pushed = Symbol('pushed')

/** An empty queue. Every operation takes constant time, however many owners there are. */
export function createFairQueue<Item>({ room = Infinity, roomForOne = Infinity }: FairQueueSizes) {
  /** In the order of turns; contains only owners with waiting items. */
  const lines = new Map<Owner, Fifo<Item>>()
  const ranking = createRanking()
  let size = 0
  let sizeOfPushed = 0

  function join(owner: Owner, item: Item): void {
    const line = getOrAdd(lines, owner, createFifo<Item>)
    line.push(item)
    count(owner, line, 1)
  }

  function count(owner: Owner, line: Fifo<Item>, change: 1 | -1): void {
    size += change
    if (owner === pushed) sizeOfPushed += change
    else ranking.move(owner, line.size - change, line.size)
  }

  function dropLast(owner: string): Item {
    const line = lines.get(owner) as Fifo<Item>
    const item = line.pop() as Item
    if (line.size === 0) lines.delete(owner)
    count(owner, line, -1)
    return item
  }

  function defer(owner: Owner): void {
    const line = lines.get(owner)
    lines.delete(owner)
    if (line !== undefined && line.size > 0) lines.set(owner, line)
  }

  return {
    /** Moves an owner behind all others. */
    defer: (owner: string): void => defer(owner),
    /** The number of waiting items. */
    get size(): number {
      return size
    },
    /**
     * Queues an item of `owner`. If there is no room, returns the item to drop: the last one of the
     * owner with the most waiting, which may be this item.
     */
    offer(owner: string, item: Item): Item | undefined {
      const own = lines.get(owner)?.size ?? 0
      if (own >= roomForOne) return item
      let dropped: Item | undefined
      if (size - sizeOfPushed >= room) {
        const [busiest, top] = ranking.first()
        if (top <= own) return item
        dropped = dropLast(busiest)
      }
      join(owner, item)
      return dropped
    },
    /** Queues the item even if the queue is full, in a turn of its own. */
    push: (item: Item): void => join(pushed, item),
    /** The next item, in turn, of an owner that is not passed over. */
    take(isPassedOver: (owner: string) => boolean = () => false): Item | undefined {
      for (const [owner, line] of lines) {
        if (owner !== pushed && isPassedOver(owner)) continue
        const item = line.take()
        defer(owner)
        count(owner, line, -1)
        return item
      }
      return undefined
    },
  }
}

function createRanking() {
  const owners: Set<string>[] = []
  let top = 0
  return {
    /** Moves an owner by one rank, up or down. */
    move(owner: string, from: number, to: number): void {
      owners[from]?.delete(owner)
      if (to > 0) {
        owners[to] ??= new Set()
        owners[to].add(owner)
      }
      // If the owner was alone in the top rank, the next one is now the top.
      top = to > top || owners[top]?.size === 0 ? to : top
    },
    /** One of the owners with the most items, and their number. */
    first(): readonly [string, number] {
      const [owner] = owners[top] ?? []
      return [owner ?? '', top]
    },
  }
}

type Fifo<Item> = ReturnType<typeof createFifo<Item>>

/** First in, first out; push and take cost a constant time per item, however long it is. */
function createFifo<Item>() {
  let items: Item[] = []
  let head = 0
  return {
    get size(): number {
      return items.length - head
    },
    push(item: Item): void {
      items.push(item)
    },
    /** Removes and returns the last item, or undefined if it is empty. */
    pop: (): Item | undefined => (head < items.length ? items.pop() : undefined),
    /** Removes and returns the first item, or undefined if it is empty. */
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
