/**
 * What a response costs after it has ended: its access-log entry and its journal line, from bytes
 * to counters and metrics.
 */

import { readUsages } from '../src/ratelimit/access-log.ts'
import { parseLine } from '../src/ratelimit/journal/line.ts'
import { createSettle } from '../src/ratelimit/settle.ts'
import { createMemoryCounters } from '../src/store/counters/memory.ts'
import { accessLogMessage, structOf } from '../test/support/envoy-messages.ts'
import { createBenchTelemetry, createSnapshot } from './fixture.ts'
import { bytesPerCall, type Figure, microsPerCall } from './measure.ts'

const users = 1_024
const models = 100
const teams = 16
const prepared = 20_000

export async function benchUsage(): Promise<readonly Figure[]> {
  const snapshot = createSnapshot(models, teams)
  const telemetry = createBenchTelemetry()
  const settle = createSettle({
    snapshot: () => snapshot,
    counters: createMemoryCounters(),
    clock: Date.now,
    unusableUsage: 'allow',
    onSettled() {},
    onCounted: telemetry.onCounted,
  })
  const entries = Array.from({ length: prepared }, (_, i) => toEntry(i))
  const lines = Array.from({ length: prepared }, (_, i) => toLine(i))
  const take = (i: number): void => {
    const entry = entries[i % prepared] as Buffer
    // Only unknown ids are counted, so these have none.
    for (const usage of readUsages(entry, false, { onOutcome: telemetry.onEnded })) settle(usage)
  }
  const read = (i: number): void => {
    const [usage] = parseLine(lines[i % prepared] as string)
    if (usage === undefined) throw new Error('no line')
    settle(usage, 'journal')
  }
  const figures = [
    { name: 'an access-log entry, counted', work: take },
    { name: 'a journal line that was reported before', work: read },
  ].flatMap(({ name, work }) => [
    { name, value: `${microsPerCall(work, 40_000).toFixed(2)} µs CPU` },
    { name: '  its garbage', value: `${bytesPerCall(work, prepared).toFixed(0)} bytes` },
  ])
  await telemetry.stop()
  return figures
}

function toId(i: number): string {
  return `274679e7-7e02-4a9e-b3f9-${i.toString(16).padStart(12, '0')}`
}

/** With every field that Envoy sets. */
function toEntry(i: number): Buffer {
  const local = { socket_address: { address: '127.0.0.1', port_value: 8_080 } }
  const check = {
    user: `user-${i % users}`,
    key: toId(i),
    subscription: `team-${i % teams}`,
    model: `llm/m${i % models}`,
    metered: true,
  }
  const used = { total_tokens: 40, prompt_tokens: 30, completion_tokens: 10 }
  const common = {
    downstream_remote_address: local,
    downstream_local_address: local,
    upstream_remote_address: local,
    start_time: { seconds: Math.floor(Date.now() / 1_000), nanos: 477_999_999 },
    time_to_last_rx_byte: { nanos: 90_000 },
    time_to_first_upstream_tx_byte: { nanos: 900_000 },
    time_to_first_upstream_rx_byte: { nanos: 3_900_000 },
    time_to_last_downstream_tx_byte: { nanos: 4_010_000 },
    duration: { nanos: 4_100_000 },
    upstream_cluster: `model/llm/m${i % models}`,
    response_flags: {},
    metadata: {
      filter_metadata: {
        'envoy.filters.http.ext_authz': structOf(check),
        'tollgate.usage': structOf(used),
      },
    },
    route_name: 'model',
  }
  const request = { path: '/v1/chat/completions', user_agent: 'x', request_id: toId(i) }
  const response = {
    response_code: { value: 200 },
    response_body_bytes: 700,
    response_code_details: 'via_upstream',
  }
  return accessLogMessage.encode({
    http_logs: { log_entry: [{ common_properties: common, request, response }] },
  })
}

/** In Envoy's order of fields. */
function toLine(i: number): string {
  return JSON.stringify({
    bytes: 700,
    group: null,
    id: toId(i),
    model: `llm/m${i % models}`,
    ms: 4,
    reported: { completion_tokens: 10, prompt_tokens: 30, total_tokens: 40 },
    start: String(Date.now()),
    status: 200,
    subscription: `team-${i % teams}`,
    user: `user-${i % users}`,
  })
}

if (import.meta.main) {
  for (const { name, value } of await benchUsage()) console.log(`${name.padEnd(40)}  ${value}`)
}
