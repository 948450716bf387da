import { test } from 'tap'
import { createFairQueue, type FairQueue } from '../../src/runtime/fair-queue.ts'
import { createRandom } from '../support/random.ts'

function takeAll(queue: FairQueue<string>): string[] {
  const taken: string[] = []
  for (let item = queue.take(); item !== undefined; item = queue.take()) taken.push(item)
  return taken
}

test('owners take turns, each in its own order', async (t) => {
  const queue = createFairQueue<string>({ room: 100, roomForOne: 100 })
  for (const item of ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'c2']) queue.offer(item[0] ?? '', item)
  t.equal(queue.size, 7)
  t.equal(queue.take(), 'a1')
  queue.offer('d', 'd1')
  t.strictSame(takeAll(queue), ['b1', 'c1', 'a2', 'd1', 'c2', 'a3', 'a4'])
  t.equal(queue.size, 0)
  t.equal(queue.take(), undefined)
})

test('one owner cannot take the room of the others', async (t) => {
  const queue = createFairQueue<string>({ room: 1_000, roomForOne: 400 })
  const flood = (owner: string) =>
    Array.from({ length: 500 }, (_, i) => queue.offer(owner, `${owner} ${i}`))
  const dropped = flood('flood')
  t.equal(
    dropped.indexOf('flood 400'),
    400,
    'what exceeds the share of an owner is refused at once',
  )
  t.ok(dropped.slice(0, 400).every((item) => item === undefined))
  for (let i = 0; i < 50; i += 1) {
    flood(`flood ${i}`)
    t.not(queue.offer(`honest ${i}`, `honest ${i}`), `honest ${i}`)
  }
  t.equal(queue.size, 1_000)
  const taken = takeAll(queue)
  t.equal(taken.filter((item) => item.startsWith('honest')).length, 50)
  const shares = Object.values(Object.groupBy(taken, (item) => item.replace(/ \d+$/, '')))
  t.ok(shares.every((share = []) => share.length <= 20 + 30))
  t.equal(queue.offer('flood', 'again'), undefined, 'there is room again')
})

test('a pushed item takes a turn but no room', async (t) => {
  const queue = createFairQueue<string>({ room: 4, roomForOne: 2 })
  for (let i = 0; i < 10; i += 1) queue.push(`p${i}`)
  const offered = ['a1', 'a2', 'a3', 'b1'].map((item) => queue.offer(item[0] ?? '', item))
  t.strictSame(offered, [undefined, undefined, 'a3', undefined])
  t.strictSame(takeAll(queue).slice(0, 5), ['p0', 'a1', 'b1', 'p1', 'a2'])
  t.equal(queue.offer('a', 'a3'), undefined)
})

test('the last item of the longest line is dropped', async (t) => {
  const queue = createFairQueue<string>({ room: 5, roomForOne: 5 })
  for (const item of ['a1', 'a2', 'a3', 'b1', 'b2']) queue.offer(item[0] ?? '', item)
  t.equal(queue.offer('c', 'c1'), 'a3')
  t.equal(queue.offer('a', 'a4'), 'a4', 'no owner has a longer line')
  t.match(queue.offer('c', 'c2'), /^c2|[ab]2$/)
  t.match(queue.offer('d', 'd1'), /^[abc]2$/)
  t.match(queue.offer('e', 'e1'), /^[abc]2$/)
  t.match(queue.offer('f', 'f1'), /^[abcde]1$|2$/, 'among equal lines there is room for a newcomer')
  t.equal(takeAll(queue).length, 5)
})

test('long lines keep their order', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const queue = createFairQueue<string>({ room: 100_000, roomForOne: 100_000 })
  const expected: string[] = []
  const taken: string[] = []
  for (let i = 0; i < 20_000; i += 1) {
    queue.offer('a', String(i))
    expected.push(String(i))
    if (random.below(3) > 0 && queue.size > 1_500) taken.push(queue.take() ?? '')
  }
  t.strictSame([...taken, ...takeAll(queue)], expected)
})
