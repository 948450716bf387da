import { test } from 'tap'
import { failureOf, isAnswered } from '../../../src/usage/rules/model-failure.ts'

const ended = (details: string, flags: readonly number[], transport = '', reported?: string) => ({
  flags: new Set(flags),
  details,
  transport,
  reported,
})

test('each failure has its reason', async (t) => {
  const before = (why: string) => `upstream_reset_before_response_started{${why}}`
  const refused = 'delayed_connect_error:_Connection_refused'
  const untrusted = 'TLS_error:|CERTIFICATE_VERIFY_FAILED:verify cert failed'
  for (const [reason, details, flags, transport] of [
    ['dns', 'no_healthy_upstream', [2], ''],
    ['refused', before(`remote_connection_failure|${refused}`), [6], refused],
    ['tls', before('remote_connection_failure'), [6], untrusted],
    ['timeout', before('connection_timeout'), [6], ''],
    ['unreachable', before('remote_connection_failure'), [6], 'No_route_to_host'],
    ['timeout', 'response_timeout', [3], ''],
    ['timeout', 'stream_idle_timeout', [17], ''],
    ['reset', before('connection_termination'), [7], ''],
    ['reset', 'upstream_reset_after_response_started{protocol_error}', [24], ''],
    ['protocol', before('protocol_error'), [24], ''],
    ['overflow', before('overflow'), [8], ''],
    ['no_cluster', 'cluster_not_found', [25], ''],
  ] as const) {
    t.equal(failureOf(ended(details, flags, transport))?.reason, reason, `${reason} ${details}`)
  }
  const { detail } = failureOf(ended(before('x'), [6], untrusted)) ?? {}
  t.equal(detail, untrusted)
})

test('a reason from Envoy’s script takes precedence', async (t) => {
  const answer = ended('via_upstream', [], '', 'credential_refused')
  t.equal(failureOf(answer)?.reason, 'credential_refused')
  t.equal(failureOf(ended('via_upstream', [], '', 'else')), undefined)
})

test('a client that disconnects and a body that we refuse are not failures', async (t) => {
  t.equal(failureOf(ended('downstream_remote_disconnect', [15])), undefined)
  t.equal(failureOf(ended('lua_response', [])), undefined)
  t.notOk(isAnswered(ended('lua_response', [])))
  t.ok(isAnswered(ended('via_upstream', [])))
})
