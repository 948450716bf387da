/**
 * Delivers each line once across the processes of a gateway, in its writer: to metrics, notices and the like. The
 * position is in a small file in the shared folder, from which the next writer continues. It is written every second,
 * so if a process is killed, lines of about a second are delivered twice or not at all.
 */

import { inSlices } from '../runtime/slices.ts'
import { createJournalFollower, type JournalPosition } from './follower.ts'
import type { JournalFolder } from './journal-folder.ts'
import type { JournalLine } from './journal-line.ts'

interface LineDeliveryOptions {
  readonly folder: Pick<JournalFolder, 'list' | 'open' | 'remove' | 'readText' | 'replaceText'>
  /** Names of the current files. */
  readonly names: readonly string[]
  /** Name of the file with the position. */
  readonly file: string
  readonly readText: (text: string) => JournalLine | undefined
  /** `isEarlier`: the process may not have followed the lines when it was written. */
  readonly deliver: (line: JournalLine, isEarlier: boolean) => void
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly onFault: (error: unknown) => void
}

export function createLineDelivery(options: LineDeliveryOptions) {
  const { folder, names, file, readText, now, onFault } = options
  /** The position while lines are read that the last writer did not deliver, or undefined if there are none. */
  let gap: { readonly done: JournalPosition } | undefined
  let isOn = false
  let written = ''

  /** The saved position, or undefined if there is none. */
  function read(): JournalPosition | undefined {
    try {
      const all: [string, [string, number][]][] = JSON.parse(folder.readText(file) || written)
      return new Map(all.flatMap(([, position]) => position))
    } catch {
      return undefined
    }
  }

  /** A failure, such as that of a full disk, is reported: counting does not need the position. */
  function write(position: JournalPosition): void {
    const text = JSON.stringify(names.map((name) => [name, [...position]]))
    if (text === written) return
    try {
      folder.replaceText(file, `${text}\n`)
      written = text
    } catch (error) {
      onFault(error)
    }
  }

  async function close(
    position: JournalPosition,
    until: JournalPosition,
    isOver: () => boolean,
  ): Promise<void> {
    function passOn(text: string): void {
      const line = isOver() ? undefined : readText(text)
      if (line !== undefined) options.deliver(line, true)
    }
    const follower = createJournalFollower({ folder, names, position, onLine: passOn, now, until })
    await inSlices(follower.readAll()).finally(follower.close)
  }

  return {
    /** Whether the caller must deliver the lines that it reads from now on. */
    get isOn(): boolean {
      return isOn
    },
    /**
     * Unless a position is saved, saves the one that the process read up to at its start: earlier lines are not
     * delivered.
     */
    noteStart(position: JournalPosition): void {
      if (read() === undefined) write(position)
    },
    /**
     * Call it when this process becomes the writer, at this position. Lines from the saved position to this one are
     * delivered in the background; the caller delivers later ones.
     */
    begin(position: JournalPosition): void {
      // Without a usable file, start here.
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
    /** Call it every second in the writer, with the position that it has read up to. */
    savePosition(position: JournalPosition): void {
      write(gap?.done ?? position)
    },
    end(): void {
      isOn = false
      gap = undefined
    },
  }
}
