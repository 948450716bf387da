/**
 * Decides by a decision table as the gateway's script does, and adds to a lane: written from the documentation, not
 * from the code.
 */

import { createHash } from 'node:crypto'
import * as fs from 'node:fs'

export interface TableHit {
  readonly template: readonly string[]
  readonly text: string
  readonly blocks: readonly number[]
  readonly inputPerByte: number
  readonly bytesPerToken: number
  /** For all limits, the user's first. */
  readonly used: readonly number[]
}

/** Why a script would ask Check. */
export type TableMiss = 'closed' | 'unknown' | 'stale' | 'limit' | 'window' | 'fresh' | 'clock'

export interface Instants {
  readonly real: number
  readonly boot: number
}

export type TableReader = ReturnType<typeof openTableReader>

const [recordBytes, blockBytes, templateBytes, laneBytes] = [256, 320, 2_048, 96]
const none = 0xffffffff

/** Opens both files and holds them open, as a script does. */
export function openTableReader(folder: string, stem = 'usage') {
  const table = fs.openSync(`${folder}/${stem}.table`, 'r')
  const lanes = fs.openSync(`${folder}/${stem}.lanes`, 'r+')

  function part(at: number, bytes: number, file = table): Buffer | undefined {
    const found = Buffer.alloc(bytes)
    if (fs.readSync(file, found, 0, bytes, at) !== bytes) return undefined
    return sumOf(found, bytes) === found.readInt32LE(bytes - 4) ? found : undefined
  }

  function readHead() {
    const head = part(0, 96)
    if (head?.toString('latin1', 0, 8) !== 'TGTABLE1' || head.readUInt32LE(8) !== 2)
      return undefined
    const lanesHead = part(0, 28, lanes)
    if (lanesHead?.toString('latin1', 0, 8) !== 'TGLANES1') return undefined
    if (lanesHead.readDoubleLE(16) !== head.readDoubleLE(16)) return undefined
    const buckets = head.readUInt32LE(40)
    const blocksAt = 4_096 + buckets * 8 * recordBytes
    const templatesAt = blocksAt + head.readUInt32LE(44) * blockBytes
    return {
      generation: head.readUInt32LE(12),
      file: head.readDoubleLE(16),
      lease: head.readDoubleLE(24),
      clock: head.readDoubleLE(32),
      buckets,
      lanes: head.readUInt32LE(52),
      blocksAt,
      templatesAt,
      namesAt: templatesAt + head.readUInt32LE(48) * templateBytes,
    }
  }

  function readBlock(blocksAt: number, number: number) {
    const block = part(blocksAt + number * blockBytes, blockBytes)
    if (block === undefined || block.readUInt32LE(0) === 0) return undefined
    const cells = Array.from({ length: block.readUInt32LE(0) }, (_, i) => {
      const f64 = (n: number): number => block.readDoubleLE(16 + 40 * i + 8 * n)
      return { start: f64(0), end: f64(1), offset: f64(2), nextEnd: f64(3), nextOffset: f64(4) }
    })
    return { isShared: block.readUInt32LE(4) === 1, freshUntil: block.readDoubleLE(8), cells }
  }

  type Block = NonNullable<ReturnType<typeof readBlock>>

  function windowIn({ start, end, offset, nextEnd, nextOffset }: Block['cells'][0], real: number) {
    if (real >= start && real < end) return { start, offset }
    return real >= end && real < nextEnd ? { start: end, offset: nextOffset } : undefined
  }

  /** Undefined if a lane has a later window, from before a clock was set back. */
  function addedIn(number: number, cell: number, start: number, count: number): number | undefined {
    let added = 0
    const lane = Buffer.alloc(laneBytes)
    for (let n = 0; n < count; n += 1) {
      fs.readSync(lanes, lane, 0, laneBytes, 4_096 + (number * count + n) * laneBytes)
      if (lane.readDoubleLE(cell * 16) > start) return undefined
      if (lane.readDoubleLE(cell * 16) === start) added += lane.readDoubleLE(cell * 16 + 8)
    }
    return added
  }

  return {
    readHead,
    /** As written, even if it is not in force. */
    block(number: number) {
      const head = readHead()
      return head && readBlock(head.blocksAt, number)
    },
    decide(
      [credential, path, model = '']: readonly [string, string, string?],
      { real, boot }: Instants,
    ): TableHit | TableMiss {
      const head = readHead()
      if (head === undefined || head.lease <= boot || head.lease > boot + 5_000) return 'closed'
      if (Math.abs(real - boot - head.clock) >= 500) return 'clock'
      const digest = createHash('sha256').update(`${credential}\0${path}\0${model}`).digest()
      const bucket = (digest.readUInt32LE(0) & 0x7fffffff) % head.buckets
      for (let slot = 0; slot < 8; slot += 1) {
        const record = part(4_096 + (bucket * 8 + slot) * recordBytes, recordBytes)
        if (record?.readUInt32LE(48) !== 1 || !record.subarray(0, 32).equals(digest)) continue
        if (record.readUInt32LE(32) !== head.generation) return 'stale'
        if (boot >= record.readDoubleLE(56) || real >= record.readDoubleLE(64)) return 'stale'
        const text = part(head.templatesAt + record.readUInt32LE(36) * templateBytes, templateBytes)
        if (text === undefined || text.readUInt32LE(0) === 0) return 'unknown'
        const template = text.toString('utf8', 8, 8 + text.readUInt32LE(0)).split('\n')
        const limits = (template[8] ?? '').split(',').filter(Boolean)
        const blocks = [record.readUInt32LE(40), record.readUInt32LE(44)].filter((n) => n !== none)
        const used: number[] = []
        for (const number of blocks) {
          const block = readBlock(head.blocksAt, number)
          if (block === undefined) return 'unknown'
          if (boot >= block.freshUntil) return 'fresh'
          for (const [i, cell] of block.cells.entries()) {
            const window = windowIn(cell, real)
            const added = window && addedIn(number, i, window.start, head.lanes)
            if (added === undefined) return 'window'
            const sum = (window?.offset ?? 0) + added
            const limit = Number(limits[used.length]?.split(':')[1])
            if (!(sum < (block.isShared ? limit / 2 : limit))) return 'limit'
            used.push(sum)
          }
        }
        if (used.length !== limits.length) return 'unknown'
        const inputPerByte = record.readDoubleLE(72)
        const bytesPerToken = record.readDoubleLE(80)
        const own = record.toString('utf8', 88, 88 + record.readUInt32LE(52))
        return { template, text: own, blocks, inputPerByte, bytesPerToken, used }
      }
      return 'unknown'
    },
    /** The numbers of the file and of the existing blocks with these names, or undefined if none exists. */
    placeOf(names: string): string | undefined {
      const head = readHead()
      if (head === undefined) return undefined
      const numbers = names.split(' ').flatMap((text) => {
        if (!/^[0-9a-f]{16}$/.test(text)) return []
        const name = Buffer.from(text, 'hex').swap32()
        const bucket = (name.readUInt32LE(0) & 0x7fffffff) % head.buckets
        const entries = Array.from({ length: 8 }, (_, i) =>
          part(head.namesAt + (bucket * 8 + i) * 16, 16),
        )
        const found = entries.find((entry) => entry?.subarray(0, 8).equals(name))
        return found === undefined ? [] : [found.readUInt32LE(8)]
      })
      return numbers.length === 0 ? undefined : [head.file, ...numbers].join(' ')
    },
    /**
     * Adds to this lane as a response does that ends at this instant, if all windows are known; returns the lane for
     * its line.
     */
    add(blocks: readonly number[], added: number, real: number, lane = 0) {
      const head = readHead()
      if (head === undefined) return undefined
      const own = Buffer.alloc(laneBytes)
      const done: number[] = []
      for (const number of blocks) {
        const block = readBlock(head.blocksAt, number)
        if (block === undefined) continue
        const at = 4_096 + (number * head.lanes + lane) * laneBytes
        fs.readSync(lanes, own, 0, laneBytes, at)
        const starts = block.cells.map((cell) => windowIn(cell, real)?.start ?? -1)
        if (starts.some((start, i) => start < own.readDoubleLE(i * 16))) continue
        for (const [i, start] of starts.entries()) {
          if (start > own.readDoubleLE(i * 16)) own.fill(0, i * 16, i * 16 + 16)
          own.writeDoubleLE(start, i * 16)
          own.writeDoubleLE(own.readDoubleLE(i * 16 + 8) + added, i * 16 + 8)
        }
        fs.writeSync(lanes, own, 0, laneBytes, at)
        done.push(number)
      }
      return done.length === 0 ? undefined : { file: head.file, added, blocks: done }
    },
    close(): void {
      fs.closeSync(table)
      fs.closeSync(lanes)
    },
  }
}

function sumOf(part: Buffer, bytes: number): number {
  let sum = 0
  for (let at = 0; at < bytes - 4; at += 4) {
    sum = (((sum << 5) | (sum >>> 27)) + part.readInt32LE(at)) | 0
  }
  return sum
}
