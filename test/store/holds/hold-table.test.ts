import { test } from 'tap'
import { HoldTable } from '../../../src/store/holds/hold-table.ts'
import { wordsOf } from '../../../src/store/holds/request-ids.ts'
import { createRandom } from '../../support/random.ts'

const holdOf = (i: number) => ({ mean: i, variance: 2 ** 40 + i, output: i / 2, ceiling: 3 * i })

test('a table of holds is a map, whatever comes and goes', async (t) => {
  const random = createRandom()
  const table = new HoldTable<{ i: number }>()
  const map = new Map<string, number>()
  for (let i = 1; i <= 20_000; i += 1) {
    const id = `id ${random.below(i < 10_000 ? 3_000 : 300)}`
    const slot = table.find(wordsOf(id))
    const known = map.get(id)
    if ((known === undefined) !== slot < 0) t.fail(`${id} is lost or stays, seed ${random.seed}`)
    if (known === undefined) {
      table.add(wordsOf(id), { i }, holdOf(i), i + 1, i + 2)
      map.set(id, i)
    } else {
      const found = [table.ownerAt(slot).i, table.capAt(slot) - 1, table.endsAt(slot) - 2]
      if (found.some((each) => each !== known)) t.fail(`${found} for ${known}`)
      if (i % 100 === 0) t.strictSame(table.holdAt(slot), holdOf(known))
      table.remove(slot)
      map.delete(id)
    }
    if (i % 5_000 === 0) {
      table.sweep(
        (endsAt) => endsAt % 3 === 0,
        (over) => table.remove(over),
      )
      for (const [each, at] of map) if ((at + 2) % 3 === 0) map.delete(each)
    }
    if (table.size !== map.size) t.fail(`${table.size} instead of ${map.size}`)
  }
  for (const id of map.keys()) t.ok(table.find(wordsOf(id)) >= 0)
})
