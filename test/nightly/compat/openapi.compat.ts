import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../../src/runtime/package-root.ts'
import { gatewayTests } from '../../support/gateway.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { here, pythonWith, runForJson } from './libraries.ts'

const test = gatewayTests()

test('a generated Python client has few models and works', async (t, gateway) => {
  const env = await pythonWith('openapi')
  const folder = join(temporaryFolder(t), 'tollgate_client')
  const document = join(packageRoot, 'docs', 'openapi.json')
  const generate = ['generate', '--meta', 'none', '--path', document, '--output-path', folder]
  const start = 'from openapi_python_client.cli import app; app()'
  const { status, stdout } = spawnSync('python3', ['-c', start, ...generate], { env })
  t.equal(status, 0, String(stdout))
  const models = readdirSync(join(folder, 'models')).filter((file) => !file.startsWith('__'))
  const { components } = JSON.parse(readFileSync(document, 'utf8'))
  // Enumerations and maps within a schema are further ones.
  const named = Object.keys(components.schemas).length
  t.ok(models.length < 1.5 * named, `${models.length} models of ${named} schemas`)
  const found = await runForJson(['python3', join(here, 'generated.py')], {
    ...env,
    PYTHONPATH: `${join(folder, '..')}:${env.PYTHONPATH}`,
    BASE_URL: gateway.url,
    TOKEN: `token-${gateway.newUser()}`,
  })
  t.strictSame(found, {
    ...{ name: 'generated', subscription: 'plenty' },
    labels: { team: 'search', 'example.com/env': 'test' },
    ...{ limit: 100, models: ['sim'], addresses: ['0.0.0.0/0'], previous: true, widened: 403 },
    ...{ listed: 1, previewed: 1, days: 90, refused: 400 },
  })
})
