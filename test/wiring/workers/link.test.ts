import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { createLink, type Handlers, type Link } from '../../../src/wiring/workers/link.ts'

/** The two ends of a channel that carries JSON. */
function pair(one: Handlers, other: Handlers) {
  const faults: string[] = []
  const sides: Link[] = []
  const carry = (to: number) => (message: object) => {
    const text = JSON.stringify(message)
    setImmediate(() => sides[to]?.take(JSON.parse(text)))
  }
  const onFault = (error: unknown): void => void faults.push(String(error))
  sides.push(createLink(carry(1), one, onFault), createLink(carry(0), other, onFault))
  return { one: sides[0] as Link, other: sides[1] as Link, faults }
}

test('each side answers the other', async (t) => {
  const { one, other } = pair(
    { double: (value: number) => 2 * value },
    { add: async (a: number, b: number) => a + b, nothing() {} },
  )
  const answers = await Promise.all([
    one.call('add', [1, 2], 1_000),
    other.call('double', [21], 1_000),
    one.call('add', [3, 4], 1_000),
    one.call('nothing', [], 1_000),
  ])
  t.strictSame(answers, [3, 42, 7, undefined])
})

test('a failed call has its reason', async (t) => {
  const { one, other, faults } = pair(
    {},
    {
      broken() {
        throw new Error('it is broken')
      },
      slow: () => delay(200, 'late'),
    },
  )
  await t.rejects(one.call('broken', [], 1_000), { message: /it is broken/ })
  await t.rejects(one.call('unheard', [], 1_000), { message: /nobody answers unheard/ })
  await t.rejects(one.call('slow', [], 20), { message: 'no answer to slow within 20 ms' })
  await delay(300)
  t.equal(
    await one.call('slow', [], 1_000),
    'late',
    'a late answer is not taken for that of another call',
  )
  one.notify('broken')
  other.notify('nobody')
  await delay(20)
  t.strictSame(faults, ['Error: it is broken', 'Error: nobody answers nobody'])
})

test('waiting calls fail when the other process ends', async (t) => {
  const { one } = pair({}, { never: () => new Promise(() => {}) })
  const waiting = one.call('never', [], 60_000)
  one.close()
  await t.rejects(waiting, { message: 'the other process is gone' })
})
