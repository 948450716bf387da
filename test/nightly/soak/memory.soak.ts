import { readFileSync } from 'node:fs'
import http2 from 'node:http2'
import { chatPath, gatewayTests } from '../../support/gateway.ts'
import { poll } from '../../support/poll.ts'

const MiB = 2 ** 20
const heapBytes = 256 * MiB
const test = gatewayTests({ limits: { heapBytes } })

test('buffered bodies stay within the memory limit', async (t, gateway) => {
  const { key } = await gateway.mint()
  const rss = () => {
    const pages = Number(readFileSync(`/proc/${gateway.envoy.pid}/stat`, 'utf8').split(' ')[23])
    return (pages * 4_096) / MiB
  }
  const before = rss()
  // 60 bodies of 30 MiB that never end: 1.8 GB if all of them were buffered.
  const session = http2.connect(gateway.url)
  t.teardown(() => session.destroy())
  session.on('error', () => {})
  const endings: string[] = []
  const piece = Buffer.alloc(MiB, 'x')
  let most = 0
  for (let i = 0; i < 60; i += 1) {
    const stream = session.request({
      ':method': 'POST',
      ':path': chatPath,
      authorization: `Bearer ${key}`,
      'content-length': 31 * MiB,
    })
    stream.on('error', () => endings.push('reset'))
    stream.on('response', (headers) => endings.push(String(headers[':status'])))
    stream.write('{"model":"sim","x":"')
    for (let sent = 0; sent < 30; sent += 1) stream.write(piece)
  }
  await poll(
    () => {
      most = Math.max(most, rss())
      return endings.length >= 40
    },
    'most requests were ended',
    30_000,
  )
  t.ok(most < before + (2 * heapBytes) / MiB, `at most ${Math.round(most)} MiB`)
  t.comment(`${[...new Set(endings)].join(' ')}; at most ${Math.round(most)} MiB`)
  session.destroy()
  await poll(
    async () => (await gateway.chat(key)).status === 200,
    'other requests are served again',
  )
})
