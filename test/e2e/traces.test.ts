import root, { type Test } from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { chatPath, startGateway } from '../support/gateway.ts'
import {
  type OtlpReceiver,
  type ReceivedSpan,
  startOtlpReceiver,
} from '../support/otlp-receiver.ts'
import { poll } from '../support/poll.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const quick = { OTEL_BSP_SCHEDULE_DELAY: '50', OTEL_METRIC_EXPORT_INTERVAL: '200' }

/** Starts a gateway that exports traces and metrics to a receiver. */
async function startTraced(t: Test, protocol: string, env: Record<string, string> = {}) {
  const receiver = await startOtlpReceiver(t)
  const gateway = await startGateway(t, {
    adjustEnvoy: flushSoon,
    env: {
      OTEL_TRACES_EXPORTER: 'otlp',
      OTEL_METRICS_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      OTEL_EXPORTER_OTLP_ENDPOINT: protocol === 'grpc' ? receiver.grpcUrl : receiver.httpUrl,
      ...quick,
      ...env,
    },
  })
  return { receiver, gateway }
}

/** Makes Envoy send its spans often; the default is every five seconds. */
function flushSoon(bootstrap: string): string {
  const config = JSON.parse(bootstrap)
  const [layer] = config.layered_runtime.layers
  layer.static_layer['tracing.opentelemetry.flush_interval_ms'] = 100
  return JSON.stringify(config)
}

/** Waits for a span of the gateway with these attributes, and for enough of its trace. */
async function findTrace(
  { spans }: OtlpReceiver,
  fits: (attributes: ReceivedSpan['attributes']) => boolean,
  enough: (trace: readonly ReceivedSpan[]) => boolean,
): Promise<{ first: ReceivedSpan; trace: readonly ReceivedSpan[] }> {
  const found = await poll(
    () => {
      const first = spans.find((span) => span.parentId === '' && fits(span.attributes))
      const trace = spans.filter(({ traceId }) => traceId === first?.traceId)
      return first && enough(trace) ? { first, trace } : undefined
    },
    'the trace has arrived',
    30_000,
  )
  if (found === undefined) throw new Error('poll returns a truthy value')
  return found
}

const requestId = (answer: { headers: Headers }) => answer.headers.get('x-request-id')
const idOf = (attributes: ReceivedSpan['attributes']) => attributes['guid:x-request-id']
const isOurs = ({ service }: ReceivedSpan) => service === 'tollgate'

/** Whether a span descends from another, directly or indirectly. */
function isBeneath(span: ReceivedSpan, top: ReceivedSpan, trace: readonly ReceivedSpan[]): boolean {
  if (span.parentId === top.spanId) return true
  const parent = trace.find(({ spanId }) => spanId === span.parentId)
  return parent !== undefined && isBeneath(parent, top, trace)
}

for (const protocol of ['http/protobuf', 'grpc']) {
  root.test(`one request is one trace, by ${protocol}`, { skip }, async (t) => {
    const { receiver, gateway } = await startTraced(t, protocol)
    const { key } = await gateway.mint()
    const answer = await gateway.chat(key, { totalTokens: 42 })
    t.equal(answer.status, 200)
    const { first, trace } = await findTrace(
      receiver,
      (attributes) => idOf(attributes) === requestId(answer),
      (trace) => trace.some(({ name }) => name === 'Check'),
    )
    t.match(first, { service: 'tollgate-gateway', traceId: /^[0-9a-f]{32}$/ })
    t.match(first.attributes, {
      'tollgate.decision': 'allowed',
      'tollgate.model': 'llm/sim',
      'tollgate.subscription': 'plenty',
      'gen_ai.usage.total_tokens': '42',
    })
    const check = trace.find(({ name }) => name === 'Check')
    t.ok(check && isBeneath(check, first, trace), 'our span descends from the gateway’s')
    t.match(check?.attributes, {
      'tollgate.decision': 'allowed',
      'tollgate.model': 'llm/sim',
      'tollgate.subscription': 'plenty',
      'tollgate.key.from': 'store',
    })
    t.ok(check && check.startedAt >= first.startedAt && check.endedAt <= first.endedAt)
    const wait = trace.find(({ parentId }) => parentId === check?.spanId)
    t.match(wait, { name: 'database', service: 'tollgate' })

    const again = await gateway.chat(key, { totalTokens: 7 }, { stream: true })
    const known = await findTrace(
      receiver,
      (attributes) => idOf(attributes) === requestId(again),
      (trace) => trace.some(isOurs),
    )
    t.match(known.first.attributes, { 'gen_ai.usage.total_tokens': '7' })
    t.match(known.trace.filter(isOurs), [{ attributes: { 'tollgate.key.from': 'memory' } }])
  })

  root.test(`exports metrics with their times, by ${protocol}`, { skip }, async (t) => {
    const { receiver, gateway } = await startTraced(t, protocol)
    const begun = BigInt(Date.now()) * 1_000_000n
    const { key } = await gateway.mint()
    await gateway.chat(key, { totalTokens: 42 })
    await gateway.settled()
    const allowed = () =>
      receiver.points
        .get('tollgate_checks')
        ?.find(({ attributes }) => attributes.decision === 'allowed')
    await poll(() => (allowed()?.value ?? 0) >= 2, 'decisions are exported', 30_000)
    const durations = await poll(
      () => receiver.points.get('tollgate_check_duration_seconds')?.[0],
      'so are our own histograms',
    )
    t.match(durations, { kind: 'histogram' })
    if (durations === undefined) return
    t.ok(durations.value >= 2)
    t.ok(durations.startedAt < begun, 'starts when the process started')
    t.ok(durations.endedAt > begun, 'ends when they were read')
    t.match(receiver.resources.get('tollgate'), {
      'service.version': String,
      'service.instance.id': String,
    })
  })
}

root.test('a client cannot force a trace', { skip }, async (t) => {
  const { receiver, gateway } = await startTraced(t, 'http/protobuf', {
    OTEL_TRACES_SAMPLER_ARG: '0',
  })
  const { key } = await gateway.mint()
  const forced = {
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    tracestate: 'a=b',
    'x-client-trace-id': 'forced',
    'x-envoy-force-trace': '1',
  }
  for (const path of [chatPath, '/v1/models', '/health']) {
    await gateway.ask(path, key, { headers: forced, method: path === chatPath ? 'POST' : 'GET' })
  }
  await gateway.settled()
  const before = receiver.raw.length
  await poll(() => receiver.raw.length > before + 1, 'all spans have been sent', 30_000)
  t.strictSame(receiver.spans, [])
})

root.test('joins the trace of a trusted client', { skip }, async (t) => {
  const { receiver, gateway } = await startTraced(t, 'http/protobuf', {
    TRACE_TRUST_CLIENTS: 'true',
  })
  const { key } = await gateway.mint()
  const ask = (traceparent: string) =>
    gateway.ask(chatPath, key, { method: 'POST', headers: { traceparent } })
  const [unwanted, wanted] = ['1'.repeat(32), '2'.repeat(32)]
  await ask(`00-${unwanted}-b7ad6b7169203331-00`)
  await ask(`00-${wanted}-b7ad6b7169203331-01`)
  const services = () =>
    receiver.spans.flatMap(({ traceId, service }) => (traceId === wanted ? service : []))
  await poll(
    () => new Set(services()).size === 2,
    'gateway and service belong to the trace',
    30_000,
  )
  t.notOk(receiver.spans.some(({ traceId }) => traceId === unwanted))
})

root.test('refusals and the REST API are traced', { skip }, async (t) => {
  const { receiver, gateway } = await startTraced(t, 'http/protobuf')
  const user = gateway.newUser()
  const created = await gateway.ask('/v1/api-keys', `token-${user}`, {
    method: 'POST',
    body: JSON.stringify({ name: 'traced', subscription: 'plenty' }),
  })
  const rest = await findTrace(
    receiver,
    (attributes) => idOf(attributes) === requestId(created),
    (trace) => trace.filter(isOurs).length >= 2,
  )
  const route = rest.trace.find(({ name }) => name === 'POST /v1/api-keys')
  t.match(route?.attributes, {
    'http.route': '/v1/api-keys',
    'http.request.method': 'POST',
    'http.response.status_code': 201,
  })
  t.ok(route && isBeneath(route, rest.first, rest.trace))
  t.match(
    rest.trace.find(({ parentId }) => parentId === route?.spanId),
    { name: 'database' },
  )

  const { key } = await gateway.mint()
  const refused = await gateway.ask('/llm/unknown/v1/chat/completions', key, { method: 'POST' })
  t.equal(refused.status, 403)
  const { first, trace } = await findTrace(
    receiver,
    (attributes) => idOf(attributes) === requestId(refused),
    (trace) => trace.some(({ name }) => name === 'Check'),
  )
  const expected = {
    'tollgate.decision': 'model_not_allowed',
    'tollgate.model': 'llm/unknown',
    'tollgate.subscription': 'plenty',
  }
  t.match(first.attributes, expected)
  t.match(trace.find(({ name }) => name === 'Check')?.attributes, expected)
})
