import { type Test, test } from 'tap'
import {
  startObjectWriter,
  type WriteTarget,
} from '../../../src/cluster/controller/object-writer.ts'
import { type KubeClient, KubeError } from '../../../src/kubernetes/client.ts'
import { poll } from '../../support/poll.ts'

test('an object that somebody else changes back is not written without end', async (t) => {
  const told: string[] = []
  let sent = 0
  const send = async () => {
    sent += 1
    setImmediate(() => writer.enqueue([target('/contested')], true))
    return {}
  }
  const target = (path: string): WriteTarget => ({
    path,
    current: () => ({ metadata: { name: 'small' } }),
    next: () => ({ method: 'PATCH', path }),
  })
  const writer = startWriter(t, send, told)
  writer.enqueue([target('/contested')])
  await poll(() => told.length > 0, 'it is reported', 30_000)
  const before = sent
  await new Promise((settle) => setTimeout(settle, 2_000))
  t.ok(sent - before <= 1, `${sent - before} more writes in two seconds`)
  await poll(() => sent > before, 'it is written again, at a pace', 30_000)
  t.match(told, [/^.contested: .*another controller/])
  t.equal(told.length, 1)
})

test('a write that changes nothing is not repeated', async (t) => {
  const writes = { kept: 0, stored: 0 }
  const told: string[] = []
  const send = async ({ path }: { path: keyof typeof writes }) => {
    writes[path] += 1
    return { metadata: { resourceVersion: path === 'kept' ? '7' : '8' } }
  }
  const object = { metadata: { name: 'small', resourceVersion: '7' } }
  const writer = startWriter(t, send, told, { echoMs: 50 })
  const target = (path: string): WriteTarget => ({
    path,
    current: () => object,
    next: () => ({ method: 'PATCH', path }),
  })
  writer.enqueue([target('kept'), target('stored')])
  await poll(() => writes.stored > 2, 'what no watch reports is written again')
  t.equal(writes.kept, 1)
  t.strictSame(told, [])
})

test('pauses for as long as the API server asks', async (t) => {
  const times: number[] = []
  const told: string[] = []
  const send = async () => {
    times.push(performance.now())
    if (times.length === 1) throw new KubeError(429, 'too many requests', 1)
    return {}
  }
  const target = (path: string): WriteTarget => ({
    path,
    current: () => undefined,
    next: () => (times.length > 3 ? undefined : { method: 'PATCH', path }),
  })
  startWriter(t, send, told).enqueue(['/one', '/two', '/three'].map(target))
  await poll(() => times.length > 3, 'all are written')
  const [first = 0, second = 0, third = 0] = times
  t.ok(second - first > 950, 'others wait, too')
  t.ok(third - second < 500, 'then the usual pause')
  t.strictSame(told, [])
})

test('an API server that is busy is reported once, not for each object', async (t) => {
  const told: string[] = []
  let sent = 0
  const send = async () => {
    sent += 1
    throw new KubeError(429, 'too many requests')
  }
  const target = (path: string): WriteTarget => ({
    path,
    current: () => undefined,
    next: () => ({ method: 'PATCH', path }),
  })
  startWriter(t, send, told).enqueue(['/all/one', '/all/two', '/all/three'].map(target))
  await poll(() => sent >= 9, 'each was tried three times', 30_000)
  t.strictSame(told, ['/all/one: too many requests'])
})

/** A writer that ends with `t` and sends by `send`; `told` gets its problems. */
function startWriter<Request>(
  t: Test,
  send: (request: Request) => Promise<unknown>,
  told: string[],
  more: { readonly echoMs?: number } = {},
) {
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  return startObjectWriter({
    client: { send } as unknown as KubeClient,
    mayWrite: () => true,
    signal: closing.signal,
    onProblem: (path, problem) => told.push(`${path}: ${problem}`),
    ...more,
  })
}
