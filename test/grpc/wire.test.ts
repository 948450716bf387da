import { test } from 'tap'
import { WireError, WireReader, WireWriter, wireType } from '../../src/grpc/wire.ts'
import { createRandom } from '../support/random.ts'

/** Reads a message and up to four levels of nested ones; returns the number of fields. */
function walk(reader: WireReader, depth = 0): number {
  let fields = 0
  while (reader.next()) {
    fields += 1
    if (reader.type === wireType.varint) reader.unsigned()
    else if (reader.type === wireType.bytes && depth < 4) {
      const outerEnd = reader.enter()
      fields += walk(reader, depth + 1)
      reader.leave(outerEnd)
    }
  }
  return fields
}

/** Skips every field, as a reader skips unknown ones. */
function skip(bytes: Buffer): number {
  const reader = new WireReader(bytes)
  let fields = 0
  while (reader.next()) fields += 1
  return fields
}

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex')

test('reads back what it has written', async (t) => {
  for (const text of [
    '',
    'a',
    'ü€😀',
    '\ud800',
    'x'.repeat(48),
    'x'.repeat(49),
    `${'x'.repeat(47)}ü`,
    `ü${'x'.repeat(47)}`,
    'x'.repeat(127),
    'x'.repeat(128),
    '€'.repeat(5_000),
    'x'.repeat(2_100_000),
  ]) {
    const reader = new WireReader(new WireWriter().string(7, text).finish())
    t.equal(reader.next(), true)
    t.strictSame([reader.field, reader.type], [7, wireType.bytes])
    t.equal(reader.string(), text.toWellFormed(), `${text.length} characters`)
    t.equal(reader.next(), false)
  }
  for (const value of [
    0,
    1,
    127,
    128,
    300,
    2 ** 31,
    2 ** 32,
    2 ** 35 + 1,
    Number.MAX_SAFE_INTEGER,
  ]) {
    const reader = new WireReader(new WireWriter(1).unsigned(1, value).finish())
    t.ok(reader.next())
    t.equal(reader.unsigned(), value)
  }
  for (const value of [
    0,
    -0,
    1.5,
    -1,
    1e308,
    Number.MIN_VALUE,
    Number.POSITIVE_INFINITY,
    Number.NaN,
  ]) {
    const written = new WireWriter(0).double(536_870_911, value).finish()
    const reader = new WireReader(written)
    t.ok(reader.next())
    t.equal(reader.field, 536_870_911, 'the highest field number')
    t.equal(reader.type, wireType.fixed64)
    t.ok(Object.is(written.readDoubleLE(written.length - 8), value))
    t.equal(reader.next(), false)
  }
})

test('writes nested messages of every length', async (t) => {
  for (const length of [
    0, 1, 120, 125, 126, 127, 128, 129, 16_380, 16_383, 16_384, 16_390, 2_097_152,
  ]) {
    const text = 'x'.repeat(length)
    for (const capacity of [0, 1, 64, 512]) {
      const written = new WireWriter(capacity)
        .message(1, (outer) => {
          outer
            .string(1, 'before')
            .message(2, (inner) => inner.string(3, text))
            .unsigned(4, 5)
        })
        .unsigned(9, 9)
        .finish()
      const reader = new WireReader(written)
      t.ok(reader.next())
      const outerEnd = reader.enter()
      t.ok(reader.next())
      t.equal(reader.string(), 'before')
      t.ok(reader.next())
      const innerEnd = reader.enter()
      t.ok(reader.next())
      t.equal(reader.string() === text, true, `${length} in ${capacity}`)
      reader.leave(innerEnd)
      t.ok(reader.next())
      t.equal(reader.unsigned(), 5)
      t.equal(reader.next(), false)
      reader.leave(outerEnd)
      t.ok(reader.next())
      t.equal(reader.unsigned(), 9)
    }
  }
})

test('skips fields that are not read', async (t) => {
  const bytes = new WireWriter()
    .string(1, 'a')
    .unsigned(2, 300)
    .double(3, 1)
    .string(4, 'last')
    .finish()
  const reader = new WireReader(Buffer.concat([hex('2d 01020304'), bytes]))
  let last = ''
  while (reader.next()) if (reader.field === 4) last = reader.string()
  t.equal(last, 'last')
  t.equal(skip(Buffer.alloc(0)), 0)
})

test('throws for malformed messages', async (t) => {
  for (const [title, bytes] of [
    ['a truncated tag', '80'],
    ['a tag without value', '08'],
    ['a truncated varint', '08 80'],
    ['a varint of eleven bytes', '08 8080808080808080808001'],
    ['an endless varint', `08 ${'ff'.repeat(50)}`],
    ['an endless tag', 'ff'.repeat(50)],
    ['a length without bytes', '0a 05'],
    ['a length beyond the end', '0a 05 61626364'],
    ['a length of 2^31', '0a 8080808008 61'],
    ['a length of 2^32', '0a 8080808010 61'],
    ['a length of 2^53', '0a 8080808080808010 61'],
    ['a length of 2^63', '0a 80808080808080808001 61'],
    ['a negative length', '0a ffffffffffffffffff01 61'],
    ['four bytes of eight', '09 01020304'],
    ['two bytes of four', '0d 0102'],
    ['a group', '0b 0c'],
    ['the end of a group', '0c'],
    ['wire type 6', '0e 00'],
    ['wire type 7', '0f 00'],
    ['field 0', '00 00'],
    ['field 0 as bytes', '02 00'],
    ['field 0 in two bytes', '8000 00'],
  ] as const) {
    t.throws(() => skip(hex(bytes)), WireError, `${title}, skipped`)
    t.throws(() => walk(new WireReader(hex(bytes))), WireError, `${title}, read`)
  }
})

test('reads varints of ten bytes', async (t) => {
  const reader = new WireReader(hex('08 ffffffffffffffffff01'))
  t.ok(reader.next())
  t.ok(reader.unsigned() > 2 ** 63)
  t.equal(skip(hex('08 80808080808080808000')), 1, 'a padded zero')
})

test('throws if a field has another type', async (t) => {
  for (const [bytes, read] of [
    ['08 01', (reader: WireReader) => reader.string()],
    ['08 01', (reader: WireReader) => reader.enter()],
    ['0a 00', (reader: WireReader) => reader.unsigned()],
    ['09 0000000000000000', (reader: WireReader) => reader.unsigned()],
    ['0b 0c', (reader: WireReader) => reader.enter()],
  ] as const) {
    const reader = new WireReader(hex(bytes))
    reader.next()
    t.throws(() => read(reader), WireError)
  }
})

test('an inner length cannot exceed its message', async (t) => {
  // An outer message of 3 bytes, whose inner string has length 5, followed by 5 bytes.
  const reader = new WireReader(hex('0a 03 0a 05 61 6262626262'))
  t.ok(reader.next())
  reader.enter()
  t.ok(reader.next())
  t.throws(() => reader.string(), WireError)
  // The same for a varint that continues after the end, read and skipped.
  for (const read of [skip, (bytes: Buffer) => walk(new WireReader(bytes))]) {
    const outer = new WireReader(hex('0a 02 0880 0801'))
    t.ok(outer.next())
    t.throws(() => read(hex('0a 02 0880 0801').subarray(2, 4)), WireError)
    outer.enter()
    t.throws(() => walk(outer), WireError)
  }
})

test('closing many nested messages does not overflow the buffer', async (t) => {
  // With doubles, which leave the least of the space that was reserved for them.
  const nest = (writer: WireWriter, depth: number): WireWriter => {
    if (depth > 0) return writer.message(2, (inner) => nest(inner, depth - 1))
    for (let round = 0; round < 20; round += 1) writer.double(536_870_911, round)
    return writer
  }
  const expected = nest(new WireWriter(4_096), 12).finish()
  for (let capacity = 0; capacity < 1_000; capacity += 1) {
    const written = nest(new WireWriter(capacity), 12).finish()
    if (!written.equals(expected)) t.fail(`capacity ${capacity}`)
  }
  t.equal(walk(new WireReader(expected), -8), 32)
})

test('random bytes throw only WireErrors', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const valid = new WireWriter()
    .message(1, (outer) =>
      outer.string(1, 'abc').message(2, (inner) => inner.double(2, 1.5).unsigned(3, 7)),
    )
    .finish()
  const startedAt = process.cpuUsage()
  let refused = 0
  for (let round = 0; round < 50_000; round += 1) {
    let bytes = random.bytes(random.below(64))
    if (round % 2 === 0) {
      bytes = Buffer.from(valid)
      for (let hits = random.below(4); hits >= 0; hits -= 1)
        bytes[random.below(bytes.length)] = random.below(256)
      bytes = bytes.subarray(0, random.below(bytes.length + 1))
    }
    for (const read of [skip, (all: Buffer) => walk(new WireReader(all))]) {
      try {
        if (read(bytes) > 64 * 5) t.fail(`${bytes.toString('hex')}: more fields than bytes`)
      } catch (error) {
        refused += 1
        if (!(error instanceof WireError)) t.fail(`${bytes.toString('hex')}: ${String(error)}`)
      }
    }
  }
  t.ok(refused > 1_000, 'many are malformed')
  t.ok(process.cpuUsage(startedAt).user < 20_000_000, 'in bounded time')
})

test('reads large hostile messages quickly', async (t) => {
  const startedAt = process.cpuUsage()
  t.equal(skip(Buffer.alloc(2_000_000, hex('08 00'))), 1_000_000)
  t.throws(() => skip(Buffer.alloc(2_000_000, 0xff)), WireError)
  t.equal(skip(Buffer.alloc(2_000_000, hex('0a 00'))), 1_000_000)
  t.ok(process.cpuUsage(startedAt).user < 10_000_000)
})

test('reads known strings like others', async (t) => {
  const known = ['authorization', 'x-request-id', '']
  for (const text of ['authorization', 'authorizatiom', 'x-request-i', 'x-request-id', '', 'é']) {
    const reader = new WireReader(new WireWriter().string(1, text).finish())
    t.ok(reader.next())
    t.equal(reader.string(known), text)
    t.notOk(reader.next())
  }
})

test('oneOf returns a known string or undefined', async (t) => {
  const known = ['authorization', 'x-api-key']
  for (const text of ['authorization', 'x-api-key', 'x-api-kez', 'x-api-ke', '', 'é']) {
    const reader = new WireReader(new WireWriter().string(1, text).unsigned(2, 5).finish())
    t.ok(reader.next())
    t.equal(reader.oneOf(known), known.includes(text) ? text : undefined)
    t.ok(reader.next())
    t.equal(reader.unsigned(), 5, 'the string was consumed')
  }
})

const knownKeys = [9, 13, 31].map((length) => 'k'.repeat(length))
const knownLengths = knownKeys.reduce((bits, { length }) => bits | (1 << length), 0)

/**
 * The entries of a map with the known keys, each entry read to its end; or the name of the error.
 */
function readEntries(bytes: Buffer, skips: boolean): readonly string[] | string {
  const reader = new WireReader(bytes)
  const seen: string[] = []
  try {
    while (reader.next()) {
      if (reader.field === 3 && !(skips && reader.skipEntry(knownLengths))) {
        const end = reader.enter()
        readEntry(reader, seen)
        reader.leave(end)
      }
    }
  } catch (error) {
    if (error instanceof WireError) return error.name
    throw error
  }
  return seen
}

function readEntry(reader: WireReader, seen: string[]): void {
  let isKnown = false
  while (reader.next()) {
    if (reader.field === 1) isKnown = reader.oneOf(knownKeys) !== undefined
    else if (reader.field === 2 && isKnown) seen.push(reader.string())
  }
}

test('skipping map entries gives the same result as reading them', async (t) => {
  const pieces: Buffer[] = []
  const entry = (...fields: readonly (readonly [field: number, text: string])[]): void => {
    const writer = new WireWriter()
    writer.message(3, () => {
      for (const [field, text] of fields) writer.string(field, text)
    })
    pieces.push(writer.finish())
  }
  for (const key of [9, 13, 31, 0, 1, 12, 32, 41, 63, 127, 128, 300]) {
    for (const value of [0, 5, 127, 128, 400]) {
      entry([1, 'k'.repeat(key)], [2, `${key}`.repeat(value)])
    }
  }
  entry([2, 'early'], [1, 'k'.repeat(9)])
  entry([1, 'k'], [1, 'k'.repeat(9)], [2, 'late'])
  entry([1, 'k'], [2, 'x'], [1, 'k'.repeat(9)], [2, 'y'])
  entry([1, 'k'], [2, 'x'.repeat(20_000)])
  entry([1, 'k'.repeat(9)], [2, 'last'])
  const all = Buffer.concat(pieces)
  const whole = readEntries(all, true)
  t.strictSame(whole, readEntries(all, false))
  t.equal(whole.at(-1), 'last')
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  let refused = 0
  for (let round = 0; round < 30_000; round += 1) {
    const some = Array.from({ length: 1 + random.below(3) }, () => random.below(pieces.length))
    let torn = Buffer.concat(some.map((i) => pieces[i] as Buffer))
    // In the first bytes, where the lengths are.
    for (let hits = random.below(4); hits > 0; hits -= 1) {
      torn[random.below(Math.min(torn.length, 16))] = random.below(256)
    }
    if (random.below(4) === 0) torn = torn.subarray(0, random.below(torn.length + 1))
    const [quick, plain] = [readEntries(torn, true), readEntries(torn, false)]
    if (plain === 'WireError') refused += 1
    if (JSON.stringify(quick) !== JSON.stringify(plain)) t.fail(torn.toString('hex'))
  }
  t.ok(refused > 1_000, 'many are malformed')
})

test('writes a short pair as it writes its parts, and nothing of another', async (t) => {
  const texts = ['', 'a', 'x'.repeat(48), 'x'.repeat(49), 'é', `${'x'.repeat(20)}\u{1f600}`]
  for (let length = 60; length < 80; length += 1) texts.push('y'.repeat(length))
  let written = 0
  for (const field of [1, 6, 15, 16]) {
    for (const first of texts) {
      for (const second of texts) {
        const parts = new WireWriter(16).string(1, 'before')
        const pair = new WireWriter(16).string(1, 'before')
        const isWritten = pair.shortPair(field, first, second, 2)
        if (isWritten) {
          written += 1
          parts.message(field, (writer) => {
            writer.message(1, () => writer.string(1, first).string(2, second)).unsigned(3, 2)
          })
        }
        t.strictSame(pair.finish(), parts.finish(), `${field} ${first} ${second} ${isWritten}`)
      }
    }
  }
  t.equal(written, 27, 'those of three fields whose two texts are three short ones')
})
