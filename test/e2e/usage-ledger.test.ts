import { test } from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { claimLedgerAgrees } from '../support/ledger-agrees.ts'
import { skipValkey } from '../support/valkey.ts'

const skip = (envoyPath() === undefined && 'no Envoy') || skipValkey

test('ledger, counters and model server agree, whoever is killed', { skip }, (t) =>
  claimLedgerAgrees(t, {
    ...{ processes: 2, users: 2, requests: 600, connections: 8, kills: 1 },
    // Rotated a few times meanwhile.
    journalBytes: 65_536,
  }),
)
