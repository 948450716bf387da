/**
 * Has each line told once across the processes of a gateway, by its writer: a process that becomes the
 * writer goes on where the last one has written that it was.
 */

import { inSlices } from '../runtime/slices.ts'
import type { Positions } from './checkpoint.ts'
import type { Folder } from './folder.ts'
import { createFollower, type Position } from './follower.ts'
import type { ReadLine } from './read-line.ts'
import type { Told } from './told.ts'

export interface TellingOptions {
  readonly folder: Pick<Folder, 'list' | 'open' | 'remove'>
  readonly files: readonly string[]
  readonly told: Told
  readonly readText: (text: string) => ReadLine | undefined
  readonly tell: (line: ReadLine) => void
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly onFault: (error: unknown) => void
}

export type Telling = ReturnType<typeof createTelling>

export function createTelling(options: TellingOptions) {
  const { folder, files, told, readText, now, onFault } = options
  /** What the last writer has read and not told, or not written down; undefined: all of that is told. */
  let gap: { readonly done: Positions } | undefined
  let isOn = false

  async function close(done: Positions, upTo: Positions, isOver: () => boolean): Promise<void> {
    function take(text: string): void {
      const line = isOver() ? undefined : readText(text)
      if (line !== undefined) options.tell(line)
    }
    for (const name of files) {
      const [position, until] = [done.get(name), upTo.get(name)] as [Position, Position]
      const follower = createFollower({ folder, name, position, take, now, until })
      try {
        await inSlices(follower.readAll())
      } finally {
        follower.close()
      }
    }
  }

  return {
    /** Whether what is read from now on is to be told. */
    get isOn(): boolean {
      return isOn
    },
    /** The process has read what was there at its start: nobody's news, unless another one has begun to tell. */
    noteStart(positions: Positions): void {
      if (told.read() === undefined) told.write(positions)
    },
    /** This process is the writer from now on, and has read up to these positions; the rest is told as it is read. */
    begin(positions: Positions): void {
      // Without a usable file, from here on.
      const from = told.read() ?? positions
      const done = new Map(files.map((name) => [name, new Map(from.get(name))]))
      const mine = { done }
      gap = mine
      isOn = true
      told.write(done)
      void close(done, copyOf(positions), () => gap !== mine)
        .catch(onFault)
        .finally(() => {
          if (gap === mine) gap = undefined
        })
    },
    /** To be called each second by the writer: it has read up to these positions. */
    keep(positions: Positions): void {
      told.write(gap?.done ?? positions)
    },
    end(): void {
      isOn = false
      gap = undefined
    },
  }
}

function copyOf(positions: Positions): Positions {
  return new Map([...positions].map(([name, position]) => [name, new Map(position)]))
}
