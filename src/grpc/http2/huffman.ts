/** The Huffman code of HPACK (RFC 7541, section 5.2 and appendix B), decoded four bits at a time. */

/**
 * The code length of each byte in bits; the last is EOS. The code is canonical: codes of one length
 * are consecutive in byte order, after those of every shorter length.
 */
const lengths: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
  28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5,
  6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6,
  7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23,
  23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22,
  22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22,
  23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27,
  27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25,
  24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
]
const eos = 256

/** The shortest code has five bits, which bounds the size of decoded text. */
export const maxExpansion = 8 / 5

/** A step: an invalid code, or EOS, which must not be encoded. */
const invalid = -1
/** Flag of a step, beside the next node and a byte: the byte is complete. */
const emits = 0x100

/** The code's tree: the children of node n are at 2n and 2n + 1; a leaf is -1 minus its byte. */
function buildTree(): Int16Array {
  const tree = new Int16Array(2 * lengths.length)
  const byLength = lengths.map((_, byte) => byte)
  byLength.sort((a, b) => (lengths[a] as number) - (lengths[b] as number) || a - b)
  let nodes = 1
  let code = 0
  let before = 0
  for (const byte of byLength) {
    const length = lengths[byte] as number
    code <<= length - before
    before = length
    let node = 0
    for (let bit = length - 1; bit >= 0; bit -= 1) {
      const child = 2 * node + ((code >>> bit) & 1)
      if (bit === 0) tree[child] = -1 - byte
      else if (tree[child] === 0) tree[child] = nodes++
      node = tree[child] as number
    }
    code += 1
  }
  return tree
}

/** For each node and four bits: `next << 9`, with `emits` and a byte if one is complete. */
function buildSteps(tree: Int16Array): Int32Array {
  const steps = new Int32Array(eos * 16)
  for (let at = 0; at < steps.length; at += 1) {
    let node = at >>> 4
    let emitted = 0
    for (let bit = 3; bit >= 0 && emitted !== invalid; bit -= 1) {
      node = tree[2 * node + ((at >>> bit) & 1)] as number
      if (node >= 0) continue
      const byte = -1 - node
      emitted = byte === eos ? invalid : emits | byte
      node = 0
    }
    steps[at] = emitted === invalid ? invalid : (node << 9) | emitted
  }
  return steps
}

/** Nodes at which a text may end: its padding is less than a byte of EOS's first bits, which are all ones. */
function buildEnds(tree: Int16Array): Uint8Array {
  const ends = new Uint8Array(eos)
  for (let node = 0, bits = 0; bits < 8; bits += 1) {
    ends[node] = 1
    node = tree[2 * node + 1] as number
  }
  return ends
}

const tree = buildTree()
const steps = buildSteps(tree)
const ends = buildEnds(tree)

/**
 * Decodes `source` from `start` to `end` into `target`, which must have `maxExpansion` times the
 * space. Returns the number of decoded bytes, or -1 for an invalid code.
 */
export function decodeHuffman(
  source: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
): number {
  let length = 0
  let node = 0
  for (let at = start; at < end; at += 1) {
    const byte = source[at] as number
    let step = steps[(node << 4) | (byte >>> 4)] as number
    if (step < 0) return -1
    if ((step & emits) !== 0) target[length++] = step
    step = steps[((step >>> 9) << 4) | (byte & 15)] as number
    if (step < 0) return -1
    if ((step & emits) !== 0) target[length++] = step
    node = step >>> 9
  }
  return ends[node] === 1 ? length : -1
}
