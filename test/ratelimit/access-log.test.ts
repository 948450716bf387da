import { test } from 'tap'
import type { Outcome } from '../../src/core/status/model-failure.ts'
import { WireError, WireWriter } from '../../src/grpc/wire.ts'
import { readUsages } from '../../src/ratelimit/access-log.ts'
import { accessLogMessage, structOf } from '../support/envoy-messages.ts'
import { createRandom } from '../support/random.ts'

const check = { user: 'ädä', key: 'id-1', subscription: 'basic', model: 'llm/small', metered: true }
const usage = {
  user: 'ädä',
  subscription: 'basic',
  model: 'llm/small',
  status: 200,
  bytes: 1_234,
  reported: new Map([
    ['total_tokens', 40],
    ['prompt_tokens', 30],
  ]),
}

interface EntryOptions {
  check?: Record<string, unknown> | undefined
  used?: Record<string, unknown> | undefined
  status?: number | undefined
  namespace?: string
}

/** One log entry with every field that Envoy may set. */
function entry(options: EntryOptions = {}): object {
  const { namespace = 'envoy.filters.http.ext_authz', status = 200 } = options
  const metadata: Record<string, object> = {
    'envoy.filters.http.lua': structOf({ total_tokens: 7, metered: true }),
  }
  const checked = 'check' in options ? options.check : check
  const used = 'used' in options ? options.used : { total_tokens: 40, prompt_tokens: 30 }
  if (checked !== undefined) metadata[namespace] = structOf(checked)
  if (used !== undefined) metadata['tollgate.usage'] = structOf(used)
  return {
    common_properties: {
      sample_rate: 1,
      downstream_remote_address: { socket_address: { address: '127.0.0.1', port_value: 40_000 } },
      start_time: { seconds: 1_795_264_510, nanos: 477_999_999 },
      duration: { seconds: 23, nanos: 690_107 },
      time_to_last_downstream_tx_byte: { seconds: 1, nanos: 5 },
      upstream_cluster: 'model/llm/small',
      response_flags: { downstream_connection_termination: true },
      metadata: { filter_metadata: metadata },
      route_name: 'x',
      custom_tags: { a: 'b' },
    },
    protocol_version: 2,
    request: {
      request_method: 3,
      path: '/v1/chat/completions',
      request_id: '274679e7-7e02-4a9e-b3f9-d869ae3099da',
      request_headers: { a: 'b' },
    },
    response:
      status === undefined
        ? {}
        : {
            response_code: { value: status },
            response_headers_bytes: 5,
            response_body_bytes: 1_234,
          },
  }
}

function message(...entries: readonly object[]): Buffer {
  return accessLogMessage.encode({ http_logs: { log_entry: entries } })
}

test('an entry gives who used what', async (t) => {
  t.strictSame(readUsages(message(entry())), [usage])
})

test('what a request holds is read in any order of its fields', async (t) => {
  const fields = [
    ...[['admitted', 1_795_264_487_000] as const, ['body_bytes', 400] as const],
    ...[['max_output', 2_048] as const, ['choices', 2] as const, ['ceiling', 900] as const],
    ...[['windows', '60000:1795264500000 3600000:1795267000000'] as const],
  ]
  const windows = [
    { windowMs: 60_000, endsAt: 1_795_264_500_000 },
    { windowMs: 3_600_000, endsAt: 1_795_267_000_000 },
  ]
  const held = { admittedAt: 1_795_264_487_000, bytes: 400, maxOutput: 2_048, choices: 2, cap: 900 }
  for (let first = 0; first < fields.length; first += 1) {
    const turned = [...fields.slice(first), ...fields.slice(0, first)]
    const logged = entry({ check: { ...Object.fromEntries(turned), ...check } })
    const [read] = readUsages(message(logged))
    t.match(read, { held: { ...held, windows } }, `${turned[0]} comes first`)
  }
})

test('with a journal, an entry identifies its response', async (t) => {
  const id = '274679e7-7e02-4a9e-b3f9-d869ae3099da'
  // As in the journal, where start and duration are whole milliseconds.
  const response = { id, endedAt: 1_795_264_510_477 + 23_000 }
  t.strictSame(readUsages(message(entry()), true), [{ ...usage, response }])
  const { common_properties, request, ...rest } = entry() as Record<string, object>
  t.match(readUsages(message({ ...rest, request, common_properties }), true), [{ response }])
  t.strictSame(readUsages(message({ ...rest, common_properties }), true), [usage], 'without an id')
  const timeless = { ...common_properties, start_time: undefined }
  t.strictSame(readUsages(message({ ...rest, request, common_properties: timeless }), true), [
    usage,
  ])
})

test('what would be metered if it had reported usage is not', async (t) => {
  const unreported = entry({ check: { ...check, metered: 'if_reported' } })
  t.strictSame(readUsages(message(unreported)), [])
})

test('the end of every allowed request is reported', async (t) => {
  const outcomes: Outcome[] = []
  const { common_properties, ...rest } = entry({ check: { ...check, metered: false } }) as Record<
    string,
    object
  >
  const times = { time_to_first_upstream_rx_byte: { seconds: 1, nanos: 250_000_000 } }
  const used = message({ ...rest, common_properties: { ...common_properties, ...times } })
  t.strictSame(readUsages(used, false, { onOutcome: (outcome) => outcomes.push(outcome) }), [])
  t.strictSame(outcomes, [
    {
      model: 'llm/small',
      subscription: 'basic',
      requestId: '274679e7-7e02-4a9e-b3f9-d869ae3099da',
      status: 200,
      durationMs: 23_000,
      firstByteMs: 1_250,
      failure: undefined,
      answered: false,
    },
  ])
})

test('the counters of a key are passed on if Check has set them', async (t) => {
  const cap = 'id-1 60000,3600000'
  t.strictSame(readUsages(message(entry({ check: { ...check, cap } }))), [{ ...usage, cap }])
})

test('the owning group is passed on if Check has set it', async (t) => {
  for (const group of ['red', '']) {
    t.strictSame(readUsages(message(entry({ check: { ...check, group } }))), [{ ...usage, group }])
  }
})

test('the filter’s name may have a suffix', async (t) => {
  for (const namespace of [
    'envoy.filters.http.ext_authz',
    'envoy.filters.http.ext_authz.by_path',
  ]) {
    t.strictSame(readUsages(message(entry({ namespace }))), [usage], namespace)
  }
  t.strictSame(readUsages(message(entry({ namespace: 'x.envoy.filters.http.ext_authz' }))), [])
})

test('an unmetered response is left out', async (t) => {
  for (const metered of [false, undefined, 'true', 1, null, {}]) {
    const checked = metered === undefined ? { ...check, metered: 0 } : { ...check, metered }
    t.strictSame(readUsages(message(entry({ check: checked }))), [], JSON.stringify(metered))
  }
  t.strictSame(readUsages(message(entry({ check: undefined }))), [], 'refused by Check')
  t.strictSame(readUsages(message({})), [])
})

test('reported values are passed on unchanged', async (t) => {
  for (const [used, fields] of [
    [undefined, {}],
    [{}, {}],
    [{ total_tokens: 0 }, { total_tokens: 0 }],
    [{ total_tokens: -5 }, { total_tokens: -5 }],
    [{ total_tokens: 1.5 }, { total_tokens: 1.5 }],
    [{ total_tokens: '40' }, { total_tokens: '40' }],
    [{ total_tokens: true }, { total_tokens: true }],
    [{ total_tokens: null }, { total_tokens: undefined }],
    [{ total_tokens: { a: 1 } }, { total_tokens: undefined }],
    [{ total_tokens: Number.POSITIVE_INFINITY }, { total_tokens: Number.POSITIVE_INFINITY }],
    [{ total_tokens: Number.NaN }, { total_tokens: Number.NaN }],
    [
      { start_input_tokens: 25, input_tokens: 0, output_tokens: '12' },
      { start_input_tokens: 25, input_tokens: 0, output_tokens: '12' },
    ],
  ] as const) {
    t.strictSame(
      readUsages(message(entry({ used }))),
      [{ ...usage, reported: new Map(Object.entries(fields)) }],
      JSON.stringify(used),
    )
  }
})

test('the status is that of the response, or 0', async (t) => {
  for (const status of [200, 400, 503])
    t.match(readUsages(message(entry({ status }))), [{ status }])
  const none = { ...entry(), response: undefined }
  t.match(readUsages(message(none)), [{ status: 0 }])
  t.match(readUsages(message({ ...none, response: {} })), [{ status: 0 }])
})

test('one message may contain several entries', async (t) => {
  const bytes = message(
    entry({ used: { total_tokens: 1 } }),
    entry({ check: undefined }),
    entry({ used: { total_tokens: 2 } }),
    entry({ check: { ...check, user: 'bob' } }),
  )
  const usages = readUsages(bytes)
  t.strictSame(
    usages.map(({ reported }) => reported.get('total_tokens')),
    [1, 2, 40],
  )
  t.equal(usages[2]?.user, 'bob')
  t.equal(readUsages(Buffer.concat([bytes, bytes])).length, 6)
})

test('the node of the first message is skipped', async (t) => {
  const extensions = Array.from({ length: 1_000 }, (_, index) => ({
    name: `envoy.filters.http.${index}`,
    category: 'envoy.filters.http',
    type_urls: ['x'.repeat(30)],
  }))
  const bytes = accessLogMessage.encode({
    identifier: {
      node: { id: 'n', cluster: 'c', metadata: structOf({ a: { b: 'c' } }), extensions },
      log_name: 'usage',
    },
    http_logs: { log_entry: [entry()] },
  })
  t.ok(bytes.length > 60_000)
  t.strictSame(readUsages(bytes), [usage])
})

test('messages without entries give nothing', async (t) => {
  for (const bytes of [
    Buffer.alloc(0),
    accessLogMessage.encode({ identifier: { log_name: 'usage' } }),
    accessLogMessage.encode({ http_logs: {} }),
    accessLogMessage.encode({ tcp_logs: { log_entry: [{ common_properties: {} }] } }),
  ]) {
    t.strictSame(readUsages(bytes), [])
  }
})

test('bytes that are not a message cause a WireError', async (t) => {
  const whole = message(entry())
  for (const bytes of ['ff', '12ff', '1205', '13', '00'].map((text) => Buffer.from(text, 'hex'))) {
    t.throws(() => readUsages(bytes), WireError)
  }
  for (let length = 1; length < whole.length; length += 1) {
    t.throws(() => readUsages(whole.subarray(0, length)), WireError, `cut at ${length}`)
  }
  const wrongType = new WireWriter().unsigned(2, 5).finish()
  t.throws(() => readUsages(wrongType), WireError)
})

test('damaged messages cause only WireErrors', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const whole = message(entry(), entry())
  for (let round = 0; round < 20_000; round += 1) {
    const bytes = Buffer.from(whole)
    for (let hits = random.below(4); hits >= 0; hits -= 1)
      bytes[random.below(bytes.length)] = random.below(256)
    try {
      if (readUsages(bytes).length > whole.length) t.fail('more entries than bytes')
    } catch (error) {
      if (!(error instanceof WireError)) t.fail(`${bytes.toString('hex')}: ${String(error)}`)
    }
  }
})
