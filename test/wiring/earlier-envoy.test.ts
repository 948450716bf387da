import { test } from 'tap'
import { createEarlierEnvoyLog } from '../../src/wiring/earlier-envoy.ts'

test('an Envoy with an old configuration is told of once for each method', async (t) => {
  const lines: unknown[] = []
  const note = createEarlierEnvoyLog({
    error: (about: unknown, text?: string) => void lines.push([about, text]),
  })
  const reports = '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs'
  const limits = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
  for (const method of [reports, limits, reports, '/grpc.reflection.v1.ServerReflection/Info']) {
    note(method)
  }
  t.match(lines, [
    [{ method: reports }, /tollgate envoy-config/],
    [{ method: limits }, /restart/],
  ])
  t.equal(lines.length, 2)
})
