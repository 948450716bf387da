import { test } from 'tap'
import { hasServerResponded, modelFailureOf } from '../../../src/usage/rules/model-failure.ts'

const ended = (details: string, flags: string, transport = '', failure?: string) => ({
  flags,
  details,
  transport,
  failure,
})

test('each failure has its reason', async (t) => {
  const before = (why: string) => `upstream_reset_before_response_started{${why}}`
  const refused = 'delayed_connect_error:_Connection_refused'
  const untrusted = 'TLS_error:|CERTIFICATE_VERIFY_FAILED:verify cert failed'
  for (const [reason, details, flags, transport] of [
    ['dns', 'no_healthy_upstream', 'UH', ''],
    ['refused', before(`remote_connection_failure|${refused}`), 'UF', refused],
    ['tls', before('remote_connection_failure'), 'UF', untrusted],
    ['timeout', before('connection_timeout'), 'UF', ''],
    ['unreachable', before('remote_connection_failure'), 'UF', 'No_route_to_host'],
    ['timeout', 'response_timeout', 'UT', ''],
    ['timeout', 'stream_idle_timeout', 'SI', ''],
    ['reset', before('connection_termination'), 'UC', ''],
    ['reset', 'upstream_reset_after_response_started{protocol_error}', 'UPE', ''],
    ['protocol', before('protocol_error'), 'UPE', ''],
    ['overflow', before('overflow'), 'UO', ''],
    ['no_cluster', 'cluster_not_found', 'NC', ''],
  ] as const) {
    t.equal(
      modelFailureOf(ended(details, flags, transport))?.reason,
      reason,
      `${reason} ${details}`,
    )
  }
  const { detail } = modelFailureOf(ended(before('x'), 'UF', untrusted)) ?? {}
  t.equal(detail, untrusted)
})

test('a reason from Envoy’s script takes precedence', async (t) => {
  const answer = ended('via_upstream', '', '', 'credential_refused')
  t.equal(modelFailureOf(answer)?.reason, 'credential_refused')
  t.equal(modelFailureOf(ended('via_upstream', '', '', 'else')), undefined)
})

test('a client that disconnects and a body that we refuse are not failures', async (t) => {
  t.equal(modelFailureOf(ended('downstream_remote_disconnect', 'DC')), undefined)
  t.equal(modelFailureOf(ended('lua_response', '')), undefined)
  t.notOk(hasServerResponded(ended('lua_response', '')))
  t.ok(hasServerResponded(ended('via_upstream', '')))
})
