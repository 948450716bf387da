import { join } from 'node:path'
import { test } from 'tap'
import { serve } from '../../../src/main.ts'
import { showAddress } from '../../../src/settings/config.ts'
import { createDatabase } from '../../support/database.ts'
import { noRateLimits } from '../../support/no-rate-limits.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { fuzz, installSchemathesis } from './fuzz.ts'

/** Set by `npm run fuzz`, for longer runs with other requests. */
const examples = Number(process.env.FUZZ_EXAMPLES ?? 4)
const seed = Number(process.env.FUZZ_SEED ?? 20_260_301)
/**
 * In a short run only the administrator, whose requests get furthest, sends the requests that the
 * schema lists, which are most of them. The other callers send only generated ones.
 */
const short = process.env.FUZZ_EXAMPLES === undefined ? 'fuzzing,stateful' : undefined

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
  const url = `http://${showAddress(service.addresses.api)}`
  for (const [who, credential, phases] of [
    ['an administrator', 'admin-token', undefined],
    ['a user', 'alice-token', short],
    ['nobody', undefined, short],
  ] as const) {
    const { passed, report } = await fuzz({ url, credential, examples, phases, seed })
    if (!passed) t.comment(report)
    t.ok(passed, `as ${who}, seed ${seed}`)
  }
})
