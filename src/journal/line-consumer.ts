/**
 * Has each line told once across the processes of a gateway, by its writer: metrics, notices and the like. How far it has
 * come is a small file in the shared folder, with which the next writer goes on. Written each second, so much may be
 * told again, or not, around a process that is killed.
 */

import { inSlices } from '../runtime/slices.ts'
import type { Folder } from './folder.ts'
import { createFollower, type Position } from './follower.ts'
import type { ReadLine } from './read-line.ts'

interface LineConsumerOptions {
  readonly folder: Pick<Folder, 'list' | 'open' | 'remove' | 'readText' | 'replaceText'>
  /** The files that grow. */
  readonly names: readonly string[]
  /** The small file. */
  readonly file: string
  readonly readText: (text: string) => ReadLine | undefined
  readonly tell: (line: ReadLine) => void
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly onFault: (error: unknown) => void
}

export function createLineConsumer(options: LineConsumerOptions) {
  const { folder, names, file, readText, now, onFault } = options
  /** What the last writer has read and not passed on, or not recorded; undefined: nothing. */
  let gap: { readonly done: Position } | undefined
  let isOn = false
  let written = ''

  /** undefined: no process has reported anything. */
  function read(): Position | undefined {
    try {
      const all: [string, [string, number][]][] = JSON.parse(folder.readText(file) || written)
      return new Map(all.flatMap(([, position]) => position))
    } catch {
      return undefined
    }
  }

  function write(position: Position): void {
    const text = JSON.stringify(names.map((name) => [name, [...position]]))
    if (text === written) return
    folder.replaceText(file, `${text}\n`)
    written = text
  }

  async function close(position: Position, until: Position, isOver: () => boolean): Promise<void> {
    function take(text: string): void {
      const line = isOver() ? undefined : readText(text)
      if (line !== undefined) options.tell(line)
    }
    const follower = createFollower({ folder, names, position, take, now, until })
    await inSlices(follower.readAll()).finally(follower.close)
  }

  return {
    /** Whether what is read from now on is to be told. */
    get isOn(): boolean {
      return isOn
    },
    /** The process has read what was there at its start: nobody's news, unless another one has begun to tell. */
    noteStart(position: Position): void {
      if (read() === undefined) write(position)
    },
    /** This process is the writer from now on, and has read up to this position; later lines are passed on as they are read. */
    begin(position: Position): void {
      // Without a usable file, from here on.
      const mine = { done: read() ?? new Map(position) }
      gap = mine
      isOn = true
      write(mine.done)
      void close(mine.done, new Map(position), () => gap !== mine)
        .catch(onFault)
        .finally(() => {
          if (gap === mine) gap = undefined
        })
    },
    /** To be called each second by the writer: it has read up to this position. */
    keep(position: Position): void {
      write(gap?.done ?? position)
    },
    end(): void {
      isOn = false
      gap = undefined
    },
  }
}
