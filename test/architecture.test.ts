import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'

/** Which folders of src each folder may import. A folder may always import its own files. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  core: [],
  files: [],
  http: [],
  tls: ['files'],
  grpc: ['tls'],
  store: ['core'],
  controller: ['core', 'kubernetes'],
  gateway: ['core', 'http'],
  identity: ['core', 'store', 'kubernetes', 'files', 'http'],
  kubernetes: ['core', 'http'],
  audit: ['core'],
  admin: ['core', 'identity', 'store', 'audit', 'tls', 'http'],
  extauthz: ['core', 'identity', 'store', 'grpc'],
  ratelimit: ['core', 'store', 'grpc'],
  telemetry: ['core', 'tls'],
}
/** These compose the parts and may import everything. */
const wiring = ['cli', 'main.ts', 'config.ts', 'package-root.ts', 'settings', 'wiring']

const root = fileURLToPath(new URL('../src/', import.meta.url))
const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.ts'),
)
const specifier = /(?:\bfrom|^import|\bimport\()\s*'([^']+)'/gm

test('folders import only what the table allows', async (t) => {
  for (const file of files) {
    const folder = file.split(sep)[0] as string
    if (wiring.includes(folder)) continue
    const allowed = mayImport[folder]
    if (allowed === undefined) t.fail(`${file}: the table has no row for ${folder}`)
    for (const [, name = ''] of readFileSync(join(root, file), 'utf8').matchAll(specifier)) {
      const imported = normalize(join(dirname(file), name)).split(sep)[0] as string
      const fits = name.startsWith('.')
        ? imported === folder || allowed?.includes(imported)
        : folder !== 'core' || name === 'node:crypto'
      t.ok(fits, `${file} imports ${name}`)
    }
  }
})

/** These use the interface of a store; src/wiring picks the backend. */
const edges = ['admin', 'controller', 'extauthz', 'identity', 'ratelimit', 'telemetry']

test('edges import interfaces of stores, not backends', async (t) => {
  for (const file of files.filter((name) => edges.includes(name.split(sep)[0] as string))) {
    const text = readFileSync(join(root, file), 'utf8').replace(/^import type .*$/gm, '')
    for (const [, name = ''] of text.matchAll(specifier)) {
      const imported = normalize(join(dirname(file), name)).split(sep)
      t.notOk(imported[0] === 'store' && imported.length > 2, `${file} imports ${name}`)
    }
  }
})
