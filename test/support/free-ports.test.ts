import t from 'tap'
import { freePorts } from './free-ports.ts'

// Outside of a run.
process.env.CLAIMED_PORTS ??= t.testdir()

t.test('no port is given out twice, also when it is free again', async (t) => {
  const first = await freePorts(400)
  const others = new Set(await freePorts(400))
  t.equal(new Set(first).size, 400)
  t.equal(others.size, 400)
  t.strictSame(
    first.filter((port) => others.has(port)),
    [],
  )
})
