import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { gatewayTests } from '../support/gateway.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { here, pythonWith, runForJson } from './libraries.ts'

const test = gatewayTests()

test('a generated Python client has few models and works', async (t, gateway) => {
  const env = await pythonWith('openapi')
  const folder = join(temporaryFolder(t), 'tollgate_client')
  const document = join(here, '..', '..', 'docs', 'openapi.json')
  const generate = ['generate', '--meta', 'none', '--path', document, '--output-path', folder]
  const start = 'from openapi_python_client.cli import app; app()'
  const { status, stdout } = spawnSync('python3', ['-c', start, ...generate], { env })
  t.equal(status, 0, String(stdout))
  const models = readdirSync(join(folder, 'models')).filter((file) => !file.startsWith('__'))
  t.ok(models.length <= 35, `${models.length} models`)
  t.comment(`${models.length} models`)
  const found = await runForJson(['python3', join(here, 'generated.py')], {
    ...env,
    PYTHONPATH: `${join(folder, '..')}:${env.PYTHONPATH}`,
    BASE_URL: gateway.url,
    TOKEN: `token-${gateway.newUser()}`,
  })
  t.match(found, { name: 'generated', subscription: 'plenty', listed: 1, refused: 400 })
})
