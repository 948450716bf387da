import { createHash, randomUUID } from 'node:crypto'
import { test } from 'tap'
import { shortRequestId } from '../../../src/ratelimit/holds/request-ids.ts'

test('a request id becomes sixteen characters', async (t) => {
  const ids = [randomUUID(), randomUUID(), '', 'x', 'übung', 'a'.repeat(10_000), '0'.repeat(36)]
  const members = ids.map(shortRequestId)
  for (const member of members) t.match(member, /^[\w-]{16}$/)
  t.equal(new Set(members).size, ids.length)
  t.strictSame(ids.map(shortRequestId), members, 'the same each time')
})

test('a UUID keeps its random bytes', async (t) => {
  const id = '01234567-89ab-4def-8123-456789abcdef'
  t.equal(shortRequestId(id), Buffer.from('0123456789ab456789abcdef', 'hex').toString('base64url'))
  for (const traced of ['9', 'a', 'b']) {
    t.equal(
      shortRequestId(`01234567-89ab-${traced}def-8123-456789abcdef`),
      shortRequestId(id),
      traced,
    )
  }
  t.equal(shortRequestId(id.toUpperCase()), shortRequestId(id))
  t.not(shortRequestId(id.replace('cdef', 'cdee')), shortRequestId(id))
  t.not(shortRequestId(`${id}0`), shortRequestId(id))
  for (let i = 0; i < id.length; i += 1) {
    const other = `${id.slice(0, i)}\u0130${id.slice(i + 1)}`
    t.equal(
      shortRequestId(other),
      createHash('sha256').update(other).digest('base64url').slice(0, 16),
    )
  }
  t.not(shortRequestId(`${id}\n`), shortRequestId(id))
})
