import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'

const core = [
  ...['core/admission', 'core/counting', 'core/decision', 'core/formats', 'core/kinds'],
  ...['core/resources', 'core/status', 'core/table'],
]

/**
 * The rooms of src, each with the rooms that it may import; its own files always. A row may name
 * only rooms above it, so there is no circle of rooms.
 */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  'core/admission': [],
  'core/formats': [],
  'core/counting': ['core/formats'],
  'core/kinds': ['core/formats'],
  'core/decision': ['core/admission', 'core/counting', 'core/formats', 'core/kinds'],
  'core/resources': ['core/formats', 'core/kinds', 'core/decision'],
  'core/status': ['core/formats', 'core/kinds', 'core/decision', 'core/resources'],
  'core/table': ['core/decision'],
  runtime: ['core/formats'],
  tls: ['runtime'],
  grpc: ['tls'],
  journal: [
    ...['core/counting', 'core/decision', 'core/formats', 'core/status', 'core/table'],
    'runtime',
  ],
  settings: ['core/formats', 'core/decision', 'runtime', 'journal'],
  kubernetes: ['core/formats', 'runtime'],
  table: ['core/counting', 'core/decision', 'core/table', 'runtime', 'journal'],
  store: [...core, 'runtime', 'journal'],
  audit: [...core, 'runtime'],
  identity: [...core, 'runtime', 'settings', 'kubernetes', 'store'],
  sources: [...core, 'runtime', 'kubernetes'],
  gateway: [...core, 'runtime', 'settings', 'journal'],
  names: [...core, 'runtime', 'store', 'gateway'],
  controller: [
    ...core,
    ...['runtime', 'settings', 'kubernetes', 'store', 'sources', 'gateway', 'names'],
  ],
  admin: [...core, 'runtime', 'tls', 'store', 'audit', 'identity'],
  console: ['core/formats', 'core/decision', 'runtime', 'identity'],
  extauthz: [...core, 'grpc', 'store', 'identity', 'table'],
  ratelimit: [...core, 'runtime', 'journal', 'store', 'sources'],
  telemetry: [...core, 'tls'],
  local: [
    ...['core/formats', 'core/resources', 'runtime', 'settings', 'store', 'sources', 'gateway'],
    'journal',
  ],
  wiring: [
    ...core,
    ...[
      'runtime',
      'tls',
      'grpc',
      'settings',
      'kubernetes',
      'journal',
      'table',
      'store',
      'audit',
      'identity',
      'sources',
    ],
    ...[
      'gateway',
      'names',
      'controller',
      'admin',
      'console',
      'extauthz',
      'ratelimit',
      'telemetry',
      'local',
    ],
  ],
  'main.ts': ['runtime', 'settings', 'gateway', 'admin', 'telemetry', 'wiring'],
  cli: [
    ...['core/formats', 'core/resources', 'core/status', 'runtime', 'settings', 'kubernetes'],
    ...[
      'journal',
      'store',
      'audit',
      'admin',
      'sources',
      'gateway',
      'ratelimit',
      'local',
      'wiring',
      'main.ts',
    ],
  ],
}

const root = fileURLToPath(new URL('../src/', import.meta.url))
const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.ts'),
)
const specifier = /(?:\bfrom|^import|\bimport\()\s*'([^']+)'/gm

/** What each file imports, by path below src for our own files; imports of types included. */
const imports: ReadonlyMap<string, readonly string[]> = new Map(
  files.map((file) => {
    const names = [...readFileSync(join(root, file), 'utf8').matchAll(specifier)].map(
      ([, name = '']) => (name.startsWith('.') ? normalize(join(dirname(file), name)) : name),
    )
    return [file, names]
  }),
)

/** `core/decision` for `core/decision/decide.ts`. */
function roomOf(file: string): string {
  const [first = '', second = ''] = file.split(sep)
  return first === 'core' ? `${first}/${second}` : first
}

test('a row of the table names only rooms above it', async (t) => {
  const above: string[] = []
  for (const [room, allowed] of Object.entries(mayImport)) {
    for (const other of allowed) t.ok(above.includes(other), `${room} may import ${other}`)
    above.push(room)
  }
})

test('rooms import only what the table allows', async (t) => {
  for (const [file, names] of imports) {
    const room = roomOf(file)
    const allowed = mayImport[room]
    if (allowed === undefined) t.fail(`${file}: the table has no row for ${room}`)
    for (const name of names.filter((each) => imports.has(each))) {
      const other = roomOf(name)
      t.ok(other === room || allowed?.includes(other), `${file} imports ${name}`)
    }
  }
})

test('every arrow of the table is used', async (t) => {
  for (const [room, allowed] of Object.entries(mayImport)) {
    const used = new Set(
      [...imports].flatMap(([file, names]) => (roomOf(file) === room ? names.map(roomOf) : [])),
    )
    // The rooms of core are written as one where they may all be imported.
    for (const other of allowed.filter(
      (each) => !core.includes(each) || !allowed.includes(core.at(-1) as string),
    ))
      t.ok(used.has(other), `${room} uses ${other}`)
  }
})

test('core needs no package and no I/O', async (t) => {
  for (const [file, names] of imports) {
    if (!file.startsWith('core')) continue
    for (const name of names) t.ok(imports.has(name) || name === 'node:crypto', `${file}: ${name}`)
  }
})

test('no file imports itself by way of others, types included', async (t) => {
  const done = new Set<string>()
  const path: string[] = []
  function visit(file: string): void {
    const at = path.indexOf(file)
    if (at >= 0) t.fail(`a circle: ${[...path.slice(at), file].join(' → ')}`)
    if (at >= 0 || done.has(file)) return
    path.push(file)
    for (const name of imports.get(file) ?? []) if (imports.has(name)) visit(name)
    path.pop()
    done.add(file)
  }
  for (const file of files) visit(file)
  t.equal(done.size, files.length)
})

/** These use the interface of a store; src/wiring picks the backend. */
const edges = ['admin', 'controller', 'extauthz', 'identity', 'ratelimit', 'telemetry']

test('edges import interfaces of stores, not backends', async (t) => {
  for (const [file] of imports) {
    if (!edges.includes(roomOf(file))) continue
    const text = readFileSync(join(root, file), 'utf8').replace(/^import type .*$/gm, '')
    for (const [, name = ''] of text.matchAll(specifier)) {
      const imported = normalize(join(dirname(file), name)).split(sep)
      t.notOk(imported[0] === 'store' && imported.length > 2, `${file} imports ${name}`)
    }
  }
})
