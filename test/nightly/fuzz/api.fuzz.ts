import { join } from 'node:path'
import { test } from 'tap'
import { serve } from '../../../src/main.ts'
import { formatAddress } from '../../../src/settings/config.ts'
import { createDatabase } from '../../support/database.ts'
import { noRateLimits } from '../../support/no-rate-limits.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { fuzz, installSchemathesis } from './fuzz.ts'

/** About how many requests for each operation in each phase. */
const examples = Number(process.env.FUZZ_EXAMPLES ?? 300)
const seed = Number(process.env.FUZZ_SEED ?? 20_260_301)

test('generated requests cannot break the API', async (t) => {
  await installSchemathesis()
  const service = await serve({
    ...process.env,
    LOG_LEVEL: 'silent',
    AUDIT_LOG: 'off',
    DATABASE_URL: await createDatabase(t),
    DATA_DIR: temporaryFolder(t),
    USAGE_JOURNAL: join(temporaryFolder(t), 'usage.jsonl'),
    TOKEN_AUTH_FILE: 'examples/tokens.csv',
    API_ADDRESS: '127.0.0.1:0',
    INTERNAL_ADDRESS: '127.0.0.1:0',
    GRPC_ADDRESS: '127.0.0.1:0',
    METRICS_ADDRESS: 'off',
    ...noRateLimits,
  })
  t.teardown(() => service.stop())
  const url = `http://${formatAddress(service.addresses.api)}`
  for (const [who, credential] of [
    ['an administrator', 'admin-token'],
    ['a user', 'alice-token'],
    ['nobody', undefined],
  ] as const) {
    const { passed, report } = await fuzz({ url, credential, examples, seed })
    if (!passed) t.comment(report)
    t.ok(passed, `as ${who}, seed ${seed}`)
  }
})
