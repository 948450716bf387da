import { test } from 'tap'
import { nearestName } from '../../src/formats/nearest-name.ts'

const names = ['backendUrl', 'concurrency', 'admission', 'requestRateLimits', 'name', 'to']

test('finds the name that was meant', async (t) => {
  for (const [written, meant] of [
    ['backendURL', 'backendUrl'],
    ['backend_url', 'backendUrl'],
    ['concurency', 'concurrency'],
    ['cocnurrency', 'concurrency'],
    ['admision', 'admission'],
    ['requestRateLimit', 'requestRateLimits'],
    ['RequestRateLimits', 'requestRateLimits'],
    ['nmae', 'name'],
    ['ot', 'to'],
  ] as const) {
    t.equal(nearestName(written, names), meant, written)
  }
})

test('finds none that is too far away', async (t) => {
  for (const written of ['', 'x', 'zzzz', 'priority', 'server', 'x'.repeat(1_000_000)]) {
    t.equal(nearestName(written, names), undefined, written.slice(0, 20))
  }
})
