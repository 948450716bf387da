/**
 * A file that reserves space on a nearly full file system and is removed when space runs out, so that lines can still
 * be written while an operator frees space. Envoy's script removes it if it cannot write a line (envoy/lua/line.lua).
 */

import * as fs from 'node:fs'
import { type FileHandle, statfs } from 'node:fs/promises'
import { replaceFile } from '../runtime/replace-file.ts'

const mebibyte = 1_048_576
const wholeBytes = 16 * mebibyte
/** Free space below which the file is created, and below which it is removed. */
const [littleBytes, noBytes] = [4_096 * mebibyte, mebibyte]

/** `bytes`: its size, at most a sixteenth of the file system. */
export function createBallast(path: string, bytes = wholeBytes) {
  let isMaking = false

  async function make(size: number): Promise<void> {
    const piece = Buffer.alloc(65_536, 'ballast ')
    async function fill(file: FileHandle): Promise<void> {
      for (let at = 0; at < size; at += piece.length) await file.write(piece)
    }
    // A later step tries again when there is more space.
    await replaceFile(path, fill, { draft: `${path}.tmp`, mode: 0o600 }).catch(() => {})
  }

  return {
    /**
     * Call it every second. `mayMake`: whether it may create the file, true in one process of a gateway. Resolves with
     * whether the file system is full.
     */
    async step(mayMake: boolean) {
      const { bavail, blocks, bsize } = await statfs(path.slice(0, path.lastIndexOf('/') + 1))
      const free = bavail * bsize
      const size = Math.min(bytes, (blocks * bsize) / 16)
      const isThere = fs.existsSync(path)
      if (free < Math.min(noBytes, size / 4)) {
        fs.rmSync(path, { force: true })
        return true
      }
      const isDue = mayMake && !isThere && free < littleBytes && free > 3 * size
      if (isDue && !isMaking) {
        isMaking = true
        await make(size).finally(() => {
          isMaking = false
        })
      }
      return false
    },
  }
}
