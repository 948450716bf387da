import { createHash } from 'node:crypto'
import { crc32 as zlibCrc32 } from 'node:zlib'
import { test } from 'tap'
import { checksumLength, crc32, isBase62, toBase62, toChecksum } from '../../src/formats/base62.ts'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Decodes base62 text to a number. */
function numberOf(text: string): bigint {
  return [...text].reduce((sum, digit) => sum * 62n + BigInt(alphabet.indexOf(digit)), 0n)
}

/** Bytes that look random and are the same in every run. */
function bytes(seed: number, length: number): Buffer {
  return createHash('shake256', { outputLength: length }).update(String(seed)).digest()
}

test('base62 encodes one big-endian number', async (t) => {
  for (const [hex, expected] of [
    ['', '0'],
    ['00', '0'],
    ['01', '1'],
    ['0a', 'A'],
    ['23', 'Z'],
    ['24', 'a'],
    ['3d', 'z'],
    ['3e', '10'],
    ['ff', '47'],
    ['0100', '48'],
    ['000000ff', '47'],
  ] as const) {
    t.equal(toBase62(Buffer.from(hex, 'hex')), expected, hex)
  }
  for (let seed = 0; seed < 200; seed += 1) {
    const random = bytes(seed, 1 + (seed % 40))
    const text = toBase62(random)
    t.equal(numberOf(text), BigInt(`0x${random.toString('hex')}`), `seed ${seed}`)
    t.notMatch(text, /^0./, 'no padding')
  }
})

test('the CRC is that of zlib', async (t) => {
  for (const text of ['', 'a', '123456789', 'sk-tg-abc_def', '\u0000\u00ff', 'x'.repeat(5_000)]) {
    t.equal(crc32(text), zlibCrc32(Buffer.from(text, 'latin1')), JSON.stringify(text.slice(0, 20)))
  }
  t.equal(crc32('123456789'), 0xcbf43926, 'the check value of ISO 3309')
  for (let seed = 0; seed < 200; seed += 1) {
    const text = bytes(seed, seed).toString('base64')
    t.equal(crc32(text), zlibCrc32(text), `seed ${seed}`)
  }
})

test('a checksum always has six characters', async (t) => {
  for (const crc of [0, 1, 61, 62, 62 ** 5 - 1, 62 ** 5, 0x7fffffff, 0x80000000, 0xffffffff]) {
    const text = toChecksum(crc)
    t.equal(text.length, checksumLength)
    t.equal(numberOf(text), BigInt(crc), String(crc))
  }
})

test('only base62 digits make a number', async (t) => {
  for (const text of ['0', 'Az9', toBase62(Uint8Array.of(1, 2, 3))]) t.ok(isBase62(text), text)
  for (const text of [
    '',
    '-',
    'a_b',
    'a b',
    'é',
    'a\u0130',
    '\u{1f600}',
    '/',
    ':',
    '@',
    '[',
    '`',
    '{',
  ]) {
    t.notOk(isBase62(text), text)
  }
})
