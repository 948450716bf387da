/** Things that wait for their turn, taken in turn from everybody who has some waiting. */

export type FairQueue<Item> = ReturnType<typeof createFairQueue<Item>>

export interface FairQueueSizes {
  /** Waiting at most, of everybody together. */
  readonly room: number
  /** Of one owner. */
  readonly roomForOne: number
}

type Owner = string | typeof pushed

/** The owner of what was pushed. */
const pushed = Symbol('pushed')

/** A queue with nothing in it. Every call takes constant time, however many owners there are. */
export function createFairQueue<Item>({ room, roomForOne }: FairQueueSizes) {
  /** In the order of their turns; an owner with nothing waiting is not in it. */
  const lines = new Map<Owner, Line<Item>>()
  const ranking = createRanking()
  let size = 0
  let sizeOfPushed = 0

  function join(owner: Owner, item: Item): void {
    let line = lines.get(owner)
    if (line === undefined) {
      line = createLine()
      lines.set(owner, line)
    }
    line.add(item)
    count(owner, line, 1)
  }

  function count(owner: Owner, line: Line<Item>, change: 1 | -1): void {
    size += change
    if (owner === pushed) sizeOfPushed += change
    else ranking.move(owner, line.length - change, line.length)
  }

  function dropLast(owner: string): Item {
    const line = lines.get(owner) as Line<Item>
    const item = line.pop()
    if (line.length === 0) lines.delete(owner)
    count(owner, line, -1)
    return item
  }

  return {
    /** How much is waiting. */
    get size(): number {
      return size
    },
    /**
     * Lets one more thing of `owner` wait. Answers what has to go for it: nothing while there is
     * room, else the last one of whoever has the most waiting, which may be this one.
     */
    offer(owner: string, item: Item): Item | undefined {
      const own = lines.get(owner)?.length ?? 0
      if (own >= roomForOne) return item
      let dropped: Item | undefined
      if (size - sizeOfPushed >= room) {
        const [longest, most] = ranking.first()
        if (most <= own) return item
        dropped = dropLast(longest)
      }
      join(owner, item)
      return dropped
    },
    /** Lets it wait whatever waits already, in a turn of its own and without taking room. */
    push: (item: Item): void => join(pushed, item),
    /** The next one, of whoever's turn it is. */
    take(): Item | undefined {
      const [next] = lines
      if (next === undefined) return undefined
      const [owner, line] = next
      const item = line.shift()
      lines.delete(owner)
      // Behind everybody else who waits.
      if (line.length > 0) lines.set(owner, line)
      count(owner, line, -1)
      return item
    },
  }
}

function createRanking() {
  const owners: Set<string>[] = []
  let most = 0
  return {
    /** A step of one, up or down. */
    move(owner: string, from: number, to: number): void {
      owners[from]?.delete(owner)
      if (to > 0) {
        owners[to] ??= new Set()
        owners[to].add(owner)
      }
      // Whoever leaves the first rank alone is then on the next one.
      most = to > most || owners[most]?.size === 0 ? to : most
    },
    /** One of those with the most, and how much that is. */
    first(): readonly [string, number] {
      const [owner] = owners[most] ?? []
      return [owner ?? '', most]
    },
  }
}

type Line<Item> = ReturnType<typeof createLine<Item>>

/** First in, first out; an array's own `shift` moves all the others. */
function createLine<Item>() {
  let items: Item[] = []
  let head = 0
  return {
    get length(): number {
      return items.length - head
    },
    add: (item: Item): void => void items.push(item),
    shift(): Item {
      const item = items[head] as Item
      head += 1
      if (head > 1_000 && head * 2 > items.length) {
        items = items.slice(head)
        head = 0
      }
      return item
    },
    pop: (): Item => items.pop() as Item,
  }
}
