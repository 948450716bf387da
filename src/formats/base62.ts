/** Base62 (`0-9A-Za-z`, big-endian, no padding) and the CRC-32 at the end of our keys. */

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Characters of a checksum: 62^6 just exceeds 2^32. */
export const checksumLength = 6

/** The bytes as one big-endian number in base62; leading zero bytes are lost, as in the original. */
export function toBase62(bytes: Uint8Array): string {
  let rest = 0n
  for (const byte of bytes) rest = (rest << 8n) | BigInt(byte)
  let digits = ''
  do {
    digits = alphabet[Number(rest % 62n)] + digits
    rest /= 62n
  } while (rest > 0n)
  return digits
}

const isDigit = Uint8Array.from({ length: 128 }, (_, code) =>
  alphabet.includes(String.fromCharCode(code)) ? 1 : 0,
)

/**
 * Whether the text from `start` to `end` is a number in base62. Every Check calls it twice, and the
 * loop is faster than a RegExp.
 */
export function isBase62(text: string, start = 0, end = text.length): boolean {
  for (let i = start; i < end; i += 1) if (isDigit[text.charCodeAt(i)] !== 1) return false
  return start < end
}

/** A CRC-32 as six base62 characters, padded with zeros. */
export function toChecksum(crc: number): string {
  let digits = ''
  let rest = crc
  for (let i = 0; i < checksumLength; i += 1) {
    digits = alphabet[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** Whether the text ends in the checksum of everything before it. Compares digits and allocates no string. */
export function endsInChecksum(text: string): boolean {
  const end = text.length - checksumLength
  let rest = crc32(text, end)
  for (let i = text.length - 1; i >= end; i -= 1) {
    if (text.charCodeAt(i) !== alphabet.charCodeAt(rest % 62)) return false
    rest = Math.floor(rest / 62)
  }
  return true
}

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  return crc >>> 0
})

/** CRC-32 (ISO 3309, as in zlib) of Latin-1 characters up to `end`, without allocating a buffer. */
export function crc32(text: string, end = text.length): number {
  let crc = 0xffffffff
  for (let i = 0; i < end; i += 1) {
    crc = (crc >>> 8) ^ (table[(crc ^ text.charCodeAt(i)) & 0xff] as number)
  }
  return (crc ^ 0xffffffff) >>> 0
}
