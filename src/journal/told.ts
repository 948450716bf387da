/**
 * How far the writer of a gateway has told others of its process what lines say: metrics, notices and the like,
 * each line once. A small file in the shared folder, where the next writer begins.
 */

import type { Positions } from './checkpoint.ts'
import type { Folder } from './folder.ts'
import type { Position } from './follower.ts'

export interface Told {
  /** undefined: nobody has told anything. */
  read(): Map<string, Position> | undefined
  /** To be called each second: so much may be told again, or not, around a process that is killed. */
  write(positions: Positions): void
}

export function createTold(folder: Pick<Folder, 'readText' | 'replaceText'>, name: string): Told {
  let last = ''
  return {
    read() {
      try {
        const files: [string, [string, number][]][] = JSON.parse(folder.readText(name) || last)
        return new Map(files.map(([file, position]) => [file, new Map(position)]))
      } catch {
        return undefined
      }
    },
    write(positions) {
      const text = JSON.stringify([...positions].map(([file, position]) => [file, [...position]]))
      if (text === last) return
      folder.replaceText(name, `${text}\n`)
      last = text
    },
  }
}
