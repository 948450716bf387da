import { test } from 'tap'
import {
  blockBytes,
  encodeTableHeader,
  recordBytes,
  recordDigest,
  tableChecksum,
  tablePlaces,
  templateBytes,
  writeBlock,
  writeRecord,
  writeTemplate,
} from '../../../src/table/rules/format.ts'

test('a part of zeros is whole and in force nowhere', async (t) => {
  for (const bytes of [96, recordBytes, blockBytes, templateBytes]) {
    t.equal(tableChecksum(Buffer.alloc(bytes), bytes), 0)
  }
})

test('a check sum notices each word, and their order', async (t) => {
  const part = Buffer.alloc(templateBytes)
  const digest = recordDigest('sk-a', '/a', '')
  writeRecord(part, {
    ...{ digest, generation: 7, template: 3, blocks: [5], until: 1e6, endsAt: Infinity },
    ...{ inputPerByte: 0.25, bytesPerToken: 4, text: '"user":"é"' },
  })
  const sum = part.readInt32LE(recordBytes - 4)
  t.equal(tableChecksum(part, recordBytes), sum)
  t.equal(part.readUInt32LE(44), 0xffffffff, 'no second block')
  t.equal(part.toString('utf8', 88, 88 + part.readUInt32LE(52)), '"user":"é"')
  for (let at = 0; at < recordBytes - 4; at += 1) {
    part.writeUInt8(part.readUInt8(at) ^ 0x10, at)
    t.not(tableChecksum(part, recordBytes), sum)
    part.writeUInt8(part.readUInt8(at) ^ 0x10, at)
  }
  const [one, two] = [part.readInt32LE(0), part.readInt32LE(4)]
  part.writeInt32LE(two, 0)
  part.writeInt32LE(one, 4)
  t.not(tableChecksum(part, recordBytes), sum)
})

test('what was in a part before is not left in it', async (t) => {
  const part = Buffer.alloc(templateBytes, 0xff)
  writeTemplate(part, 'a\n')
  t.equal(part.readUInt32LE(0), 2)
  t.ok(part.subarray(10, templateBytes - 4).every((byte) => byte === 0))
  part.fill(0xff)
  writeBlock(part, { name: Buffer.alloc(8), cells: [], isShared: true, freshUntil: 1 })
  t.ok(part.subarray(16, blockBytes - 4).every((byte) => byte === 0))
  part.fill(0xff)
  const sizes = { buckets: 2, blocks: 3, templates: 4, lanes: 5 }
  encodeTableHeader(part, { ...sizes, generation: 1, file: 9, lease: 0, clock: 0 })
  t.ok(part.subarray(56, 92).every((byte) => byte === 0))
})

test('parts follow each other', async (t) => {
  const places = tablePlaces({ buckets: 2, blocks: 3, templates: 4, lanes: 5 })
  t.equal(places.recordAt(16), places.blockAt(0))
  t.equal(places.blockAt(3), places.templateAt(0))
  t.equal(places.templateAt(4), places.nameAt(0))
  t.equal(places.nameAt(16), places.tableBytes)
  t.equal(places.lanesBytes, 4_096 + 3 * 5 * 96)
})

test('parts of a digest are kept apart', async (t) => {
  const all = [
    recordDigest('sk-a', '/b', ''),
    recordDigest('sk-a/', 'b', ''),
    recordDigest('sk-a', '/', 'b'),
    recordDigest('sk-a', '', '/b'),
  ]
  t.equal(new Set(all.map((digest) => digest.toString('hex'))).size, all.length)
})
