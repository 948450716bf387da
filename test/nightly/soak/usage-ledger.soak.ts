import { test } from 'tap'
import { envoyPath } from '../../support/envoy-binary.ts'
import { claimLedgerAgrees } from '../../support/ledger-agrees.ts'
import { skipValkey } from '../../support/valkey.ts'

const skip = (envoyPath() === undefined && 'no Envoy') || skipValkey

test('twenty thousand responses are charged exactly', { skip }, (t) =>
  claimLedgerAgrees(t, {
    ...{ processes: 4, users: 50, requests: 20_000, connections: 32, kills: 4 },
    journalBytes: 1_048_576,
  }),
)
