import { createHash, randomInt } from 'node:crypto'

/** Reproducible pseudo-random values: a fuzz test prints its seed. */
export interface Random {
  readonly seed: number
  /** A whole number below `limit`. */
  below(limit: number): number
  bytes(length: number): Buffer
}

/** With SEED from the environment, or else a new seed. */
export function createRandom(seed = Number(process.env.SEED ?? randomInt(2 ** 31))): Random {
  let block = 0
  let pool = Buffer.alloc(0)
  const bytes = (length: number): Buffer => {
    while (pool.length < length) {
      block += 1
      const more = createHash('shake256', { outputLength: 4_096 }).update(`${seed} ${block}`)
      pool = Buffer.concat([pool, more.digest()])
    }
    const taken = Buffer.from(pool.subarray(0, length))
    pool = pool.subarray(length)
    return taken
  }
  return { seed, bytes, below: (limit) => bytes(4).readUInt32LE() % limit }
}
