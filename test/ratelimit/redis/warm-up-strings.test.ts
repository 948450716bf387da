import { runInThisContext } from 'node:vm'
import { test } from 'tap'
import { warmUpStringMethods } from '../../../src/ratelimit/redis/warm-up-strings.ts'

const texts = ['abcdefghijklmnopqrstuvwxyz', Buffer.from('0123456789-._~').toString('latin1')]
let functions = 0

/**
 * Adds up the characters of a text. A new function each time, because V8 adapts a function to the
 * strings it has met.
 */
function makeSum(): (text: string) => number {
  functions += 1
  return runInThisContext(`(text) => {
    let sum = ${functions}
    for (let i = 0; i < text.length; i += 1) sum += text.charCodeAt(i)
    return sum
  }`)
}

/** CPU microseconds for 100,000 texts, the minimum of several runs. */
function micros(): number {
  const sum = makeSum()
  const times = Array.from({ length: 10 }, () => {
    const begin = process.cpuUsage()
    for (let i = 0; i < 100_000; i += 1) sum(texts[i & 1] as string)
    // Both: the system divides its own sum by ticks, and may give one of them nothing.
    const { user, system } = process.cpuUsage(begin)
    return user + system
  })
  return Math.min(...times)
}

test('strings are as fast as before ioredis was loaded', async (t) => {
  const before = micros()
  await import('ioredis')
  warmUpStringMethods()
  const after = micros()
  t.ok(after < 3 * before, `${before} µs before, ${after} µs after`)
})
