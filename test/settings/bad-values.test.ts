import { test } from 'tap'
import { settings } from '../../src/settings/all-settings.ts'
import { ConfigError, loadConfig } from '../../src/settings/config.ts'
import type { Setting } from '../../src/settings/setting.ts'
import { checkSettings } from '../../src/wiring/check-settings.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const bad = [
  '5 parsecs',
  '-1',
  '99999999999999999999',
  'a,,b;c',
  '1e3',
  ',',
  '\u202e',
  'x'.repeat(5_000),
]

/** Texts of any form, names that others choose, and paths, whose files are created or looked for. */
const free = new Set([
  ...['METRICS_USER_KEY', 'INSTANCE_NAME', 'ENVOY_PATH', 'TOKEN_REVIEW_AUDIENCES', 'ADMIN_GROUPS'],
  ...['OIDC_USERNAME_CLAIM', 'OIDC_GROUPS_CLAIM', 'OIDC_USERNAME_PREFIX', 'OIDC_GROUPS_PREFIX'],
  ...['DATA_DIR', 'USAGE_JOURNAL', 'USAGE_ARCHIVE_DIR', 'REVOCATION_LOG_DIR', 'ENVOY_CONFIG_DIR'],
  ...['AUDIT_LOG', 'SECRETS_DIR'],
])
/** Names that these values are. */
const good: Readonly<Record<string, readonly string[]>> = {
  CLUSTER_DOMAIN: ['99999999999999999999', '1e3'],
  MODEL_ADDRESSES_ALLOWED: ['1e3'],
  LEASE_NAME: ['99999999999999999999', '1e3'],
  API_KEY_MARKER: ['1e3'],
  // None besides our own.
  API_KEY_MARKERS_ACCEPTED: ['1e3', ','],
  // No header, and no origin: the defaults.
  HEADERS_TO_MODELS: [','],
  CORS_ALLOWED_ORIGINS: [','],
}

test('a bad value of any setting stops the start, and is named', async (t) => {
  const DATA_DIR = temporaryFolder(t)
  for (const { name } of Object.values(settings) as readonly Setting<unknown>[]) {
    if (free.has(name)) continue
    for (const value of bad) {
      if (good[name]?.includes(value)) continue
      const env = { DATA_DIR, [name]: value }
      try {
        loadConfig(env, checkSettings)
        t.fail(`${name} takes ${value.slice(0, 30)}`)
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error
        t.match(error.message, name)
        t.ok(error.problems.every((problem) => !problem.includes('\n')))
      }
    }
    const blank = { DATA_DIR, [name]: '  ' }
    t.doesNotThrow(() => loadConfig(blank, checkSettings), `${name} is not set if it is blank`)
  }
})
