import * as fs from 'node:fs'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import {
  blockBytes,
  bucketOf,
  encodeTableHeader,
  lanesHeadBytes,
  nameBytes,
  recordBytes,
  recordDigest,
  slotsOfBucket,
  type TableBlock,
  type TableHead,
  type TableRecord,
  tableHeaderBytes,
  tablePlaces,
  templateBytes,
  writeBlock,
  writeLanesHead,
  writeName,
  writeRecord,
  writeTemplate,
} from '../../src/table/rules/format.ts'

/** The request that may be let pass: a credential, the whole path, and the model of the body or ''. */
export type Asking = readonly [credential: string, path: string, model: string]

/** CLOCK_BOOTTIME in milliseconds, in the kernel's resolution. */
export function bootTime(): number {
  return Number(fs.readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1_000
}

/** The name of a block that `writeTable` writes, in Check's form: some digits belong to negative numbers. */
export function nameOf(block: number): string {
  return `fedcba9${block}8765432${block}`
}

/**
 * Writes a decision table to the test's specification, beside a USAGE_JOURNAL. Nothing renews its lease of five
 * seconds.
 */
export function writeTable(usageJournal: string, changes: Partial<TableHead> = {}) {
  const { table, lanes } = journalFilesOf(usageJournal)
  const head: TableHead = {
    ...{ buckets: 16, blocks: 8, templates: 8, lanes: 4, generation: 1 },
    file: Math.floor(Math.random() * 2 ** 48),
    lease: bootTime() + 4_900,
    clock: Date.now() - bootTime(),
    ...changes,
  }
  const places = tablePlaces(head)
  const part = Buffer.alloc(templateBytes)
  const write = (path: string, bytes: number, at: number) => {
    const file = fs.openSync(path, 'r+')
    fs.writeSync(file, part, 0, bytes, at)
    fs.closeSync(file)
  }
  const put = (changed: Partial<TableHead> = {}, path = table) => {
    encodeTableHeader(part, { ...head, ...changed })
    write(path, tableHeaderBytes, 0)
  }
  for (const [path, bytes] of [
    [lanes, places.lanesBytes],
    [table, places.tableBytes],
  ] as const) {
    fs.writeFileSync(`${path}.new`, Buffer.alloc(bytes))
    if (path === table) put({}, `${path}.new`)
    else {
      writeLanesHead(part, head)
      write(`${path}.new`, lanesHeadBytes, 0)
    }
    fs.renameSync(`${path}.new`, path)
  }

  return {
    file: head.file,
    /** Rewrites the head. */
    head: put,
    /** Two records may have the same bucket, and then need separate slots. */
    record([credential, path, model]: Asking, record: Partial<TableRecord> = {}, slot = 0): void {
      const digest = recordDigest(credential, path, model)
      writeRecord(part, {
        ...{ digest, generation: 1, template: 0, blocks: [0] },
        ...{ until: bootTime() + 30_000, endsAt: Number.POSITIVE_INFINITY },
        ...{ inputPerByte: 0, bytesPerToken: 0, text: '"user":"ann","key":"k"' },
        ...record,
      })
      const at = bucketOf(digest, head.buckets) * slotsOfBucket + slot
      write(table, recordBytes, places.recordAt(at))
    },
    /** By default with one cell, whose window is this hour's; found by its name. */
    block(number: number, block: Partial<TableBlock> = {}): void {
      const start = Date.now() - (Date.now() % 3_600_000)
      const end = start + 3_600_000
      const cell = { start, end, offset: 0, nextEnd: end + 3_600_000, nextOffset: 0 }
      const fresh = { isShared: false, freshUntil: Number.POSITIVE_INFINITY }
      const name = Buffer.from(nameOf(number), 'hex').swap32()
      writeBlock(part, { name, cells: [cell], ...fresh, ...block })
      write(table, blockBytes, places.blockAt(number))
      writeName(part, name, number)
      const slot = bucketOf(name, head.buckets) * slotsOfBucket + number
      write(table, nameBytes, places.nameAt(slot))
    },
    template(number: number, text: string): void {
      writeTemplate(part, text)
      write(table, templateBytes, places.templateAt(number))
    },
    /** The total of a block's first cell over all lanes. */
    added(number: number): number {
      const bytes = fs.readFileSync(lanes)
      let sum = 0
      for (let lane = 0; lane < head.lanes; lane += 1)
        sum += bytes.readDoubleLE(4_096 + (number * head.lanes + lane) * 96 + 8)
      return sum
    },
  }
}
