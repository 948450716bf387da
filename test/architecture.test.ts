import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'

/**
 * The rooms, each with the rooms that it may import; its own files always. A row may name only rooms above
 * it, so there is no circle of rooms. The rules of a room are a row of their own.
 */
// biome-ignore format: a row a room
const mayImport: Readonly<Record<string, string>> = {
  formats: '',
  kinds: 'formats',
  operations: 'formats kinds',
  'ratelimit/rules': 'formats kinds operations',
  'models/rules': 'formats kinds ratelimit/rules',
  'identity/rules': 'formats kinds ratelimit/rules',
  'keys/rules': 'formats kinds ratelimit/rules identity/rules',
  decide: 'formats kinds operations ratelimit/rules models/rules identity/rules keys/rules',
  'usage/rules': 'formats kinds ratelimit/rules models/rules keys/rules decide',
  'cluster/rules': 'formats kinds ratelimit/rules models/rules usage/rules',
  'table/rules': 'formats operations ratelimit/rules identity/rules keys/rules decide usage/rules',
  runtime: 'formats',
  tls: 'runtime',
  grpc: 'runtime tls',
  store: 'formats runtime',
  kubernetes: 'formats runtime',
  journal: 'formats ratelimit/rules usage/rules table/rules runtime',
  settings: 'formats operations keys/rules runtime journal',
  ratelimit: 'formats ratelimit/rules runtime store journal',
  table: 'operations ratelimit/rules decide table/rules runtime journal ratelimit',
  keys: 'formats identity/rules keys/rules runtime store',
  gateway: 'formats kinds models/rules cluster/rules runtime journal settings',
  models: 'formats kinds models/rules usage/rules cluster/rules runtime kubernetes gateway',
  usage: 'formats ratelimit/rules models/rules decide usage/rules runtime store journal ratelimit models',
  identity: 'formats kinds models/rules identity/rules keys/rules runtime kubernetes settings keys',
  audit: 'formats kinds models/rules identity/rules runtime',
  cluster: 'formats kinds models/rules decide cluster/rules runtime store kubernetes settings gateway models',
  extauthz: 'formats operations ratelimit/rules models/rules identity/rules keys/rules decide usage/rules table/rules grpc table ratelimit identity',
  admin: 'formats kinds operations ratelimit/rules models/rules identity/rules keys/rules decide usage/rules cluster/rules table/rules runtime tls ratelimit keys usage identity audit',
  console: 'formats runtime identity',
  telemetry: 'formats kinds decide usage/rules table/rules runtime tls',
  dev: 'formats models/rules runtime store journal settings gateway models usage',
  wiring: 'formats ratelimit/rules usage/rules cluster/rules runtime tls grpc store kubernetes journal settings table ratelimit keys gateway models usage identity audit cluster extauthz admin console telemetry dev',
  'main.ts': 'runtime settings gateway admin telemetry wiring',
  cli: 'formats models/rules cluster/rules runtime store kubernetes journal settings keys gateway models usage audit cluster admin dev wiring main.ts',
}

/** The rooms, or parts of one, whose files are pure: plain values in, plain values out. */
const pure = ['formats', 'kinds', 'operations', 'decide']

/** Clocks, timers and chance, which rules are given as values. */
const impure =
  /\b(Date\.now|new Date\(\)|performance\.|process\.(env|hrtime|on)|setTimeout|setInterval|Math\.random)/

const root = fileURLToPath(new URL('../', import.meta.url))
const files = ['src', 'dev'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => join(folder, file)),
)
const specifier = /(?:\bfrom|^import|\bimport\()\s*'([^']+)'/gm

function read(file: string): string {
  return readFileSync(join(root, file), 'utf8')
}

/** The names that a text imports, those of our own files as paths from the root. */
function importsIn(file: string, text: string): readonly string[] {
  return [...text.matchAll(specifier)].map(([, name = '']) =>
    name.startsWith('.') ? normalize(join(dirname(file), name)) : name,
  )
}

/** What each file imports; imports of types included. */
const imports = new Map(files.map((file) => [file, importsIn(file, read(file))]))

/** What each file imports when it runs. */
const needs = new Map(
  files.map((file) => [file, importsIn(file, read(file).replace(/^import type [^']*/gm, ''))]),
)

/** `decide` for `src/decide/decide.ts`, `keys/rules` for `src/keys/rules/key-lifetime.ts`. */
function roomOf(file: string): string {
  const [folder = '', room = '', part = ''] = file.split(sep)
  if (folder !== 'src') return folder
  return part === 'rules' ? `${room}/rules` : room
}

/** Those that a row allows. */
function allowedBy(room: string): readonly string[] | undefined {
  return mayImport[room]?.split(' ').filter((each) => each !== '')
}

test('a row of the table names only rooms above it', async (t) => {
  const above: string[] = []
  for (const room of Object.keys(mayImport)) {
    for (const other of allowedBy(room) ?? [])
      t.ok(above.includes(other), `${room} may import ${other}`)
    above.push(room)
  }
})

test('rooms import only what the table allows', async (t) => {
  for (const [file, names] of imports) {
    const room = roomOf(file)
    const allowed = allowedBy(room)
    if (allowed === undefined) t.fail(`${file}: the table has no row for ${room}`)
    for (const name of names.filter((each) => imports.has(each))) {
      const other = roomOf(name)
      t.ok(other === room || allowed?.includes(other), `${file} imports ${name}`)
    }
  }
})

test('every arrow of the table is used', async (t) => {
  for (const room of Object.keys(mayImport)) {
    const used = new Set(
      [...imports].flatMap(([file, names]) => (roomOf(file) === room ? names.map(roomOf) : [])),
    )
    for (const other of allowedBy(room) ?? []) t.ok(used.has(other), `${room} uses ${other}`)
  }
})

test('rules need no package, no I/O and no clock', async (t) => {
  for (const [file, names] of imports) {
    const room = roomOf(file)
    if (!pure.includes(room) && !room.endsWith('/rules')) continue
    for (const name of names) t.ok(imports.has(name) || name === 'node:crypto', `${file}: ${name}`)
    const code = read(file).replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
    t.notMatch(code, impure, file)
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

/** Files of ours that use sources, besides the sources themselves. */
const others = ['test', 'bench', 'docs', 'k8s', 'monitoring', 'package', 'console/src'].flatMap(
  (folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.tsx?$/.test(file))
      .map((file) => join(folder, file)),
)
const namesIn =
  /(?:import|export|const) (?:type )?\{([^}]*)\}\s+(?:from|= await import\()\s*'(\.[^']+)'/g
const loadedLate = /import\('(\.[^']+)'\)\)\.(\w+)/g
const wholly = /import \* as \w+ from '(\.[^']+)'/g
const exported = /^export (?:async )?(?:function\*?|const|class|interface|type) (\w+)/gm

/** The names that these files import from each file, as `<file> <name>`, and the files that they import as a whole. */
function importedBy(importers: readonly string[]) {
  const imported = new Set<string>()
  const whole = new Set<string>()
  for (const file of importers) {
    const text = read(file)
    for (const [, from = ''] of text.matchAll(wholly))
      whole.add(normalize(join(dirname(file), from)))
    const found = [
      ...[...text.matchAll(namesIn)].map(([, names = '', from = '']) => [from, names] as const),
      ...[...text.matchAll(loadedLate)].map(([, from = '', name = '']) => [from, name] as const),
    ]
    for (const [from, names] of found) {
      const source = normalize(join(dirname(file), from))
      for (const [name] of names.matchAll(/\w+/g)) imported.add(`${source} ${name}`)
    }
  }
  return (file: string, name: string): boolean => whole.has(file) || imported.has(`${file} ${name}`)
}

test('what is exported is imported somewhere', async (t) => {
  const isImported = importedBy([...files, ...others])
  for (const file of files)
    for (const [, name = ''] of read(file).matchAll(exported))
      t.ok(isImported(file, name), `${file}: ${name} is imported`)
})

/** What src/cli/main.js runs. */
const entries = ['src/cli/run-command.ts runCommand']

test('what only tests import is used in its own file', async (t) => {
  const isImported = importedBy([...files, ...others].filter((file) => !file.startsWith('test')))
  for (const file of files) {
    const text = read(file)
    for (const [line, name = ''] of text.matchAll(exported)) {
      const isType = /^export (interface|type) /.test(line)
      if (isType || isImported(file, name) || entries.includes(`${file} ${name}`)) continue
      t.ok([...text.matchAll(new RegExp(`\\b${name}\\b`, 'g'))].length > 1, `${file}: ${name}`)
    }
  }
})

/** Words that several files may export: builders of schemas and readers of settings are named by what they accept. */
const builders = ['boolean', 'integer', 'object', 'oneOf', 'optional']

test('an exported name has one meaning', async (t) => {
  const homes = new Map<string, string>()
  for (const file of files) {
    for (const [, name = ''] of read(file).matchAll(exported)) {
      if (builders.includes(name)) continue
      // A command is named as it is typed, and runs the function of that name.
      const key = `${file.startsWith(join('src', 'cli')) ? 'cli ' : ''}${name}`
      t.notOk(homes.get(key), `${name} is exported by ${file} and ${homes.get(key)}`)
      homes.set(key, file)
    }
  }
})

/** What decides a Check: the edge, and the functions that the wiring gives it. */
const check = ['extauthz/check.ts', 'extauthz/check-limits.ts', 'identity/authenticate.ts']

/** By imports alone; caches, counters, the journal and the decision table are given to it by src/wiring. */
test('Check needs few files', async (t) => {
  const loaded = new Set<string>()
  function load(file: string): void {
    if (loaded.has(file) || !needs.has(file)) return
    loaded.add(file)
    for (const name of needs.get(file) ?? []) load(name)
  }
  for (const file of check) load(join('src', file))
  t.ok(loaded.size <= 60, `Check needs ${loaded.size} files, which is more than 60`)
})

test('no file but one imports node:http, which loads what the service does not need', async (t) => {
  const importing = files.filter((file) => /^import (?!type )[^'\n]*'node:http'$/m.test(read(file)))
  t.strictSame(
    importing.filter((file) => file.startsWith('src/')),
    [],
    'src/runtime/node-http.ts has it',
  )
})

/** Each is given a store by src/wiring, and knows its interface alone. */
const edges = ['admin', 'console', 'extauthz', 'identity', 'telemetry']
const backends = /^src\/(store|ratelimit\/redis)\/|^(pg|ioredis)$/

test('edges need interfaces of stores, not backends', async (t) => {
  const isBackend = (file: string) => needs.get(file)?.some((name) => backends.test(name))
  for (const [file, names] of needs) {
    if (!edges.includes(roomOf(file))) continue
    for (const name of names)
      t.notOk(backends.test(name) || isBackend(name), `${file} imports ${name}`)
  }
})

test('a room that has rules says on one screen what it is', async (t) => {
  const rooms = Object.keys(mayImport).filter((room) => room.endsWith('/rules'))
  for (const room of [...rooms.map(dirname), 'decide', 'extauthz', 'admin', 'journal', 'gateway']) {
    const text = read(`src/${room}/README.md`)
    t.ok(text.split('\n').length <= 41, `${room}: at most 40 lines`)
    for (const part of ['## Example', '## Promises']) t.match(text, part, room)
  }
})

test('a file says first what it is', async (t) => {
  for (const file of files) {
    const text = read(file)
    const before = text.slice(0, text.search(/^export /m))
    t.ok(
      /^\/\*\*/.test(text) || before.endsWith('*/\n'),
      `${file} or its first export has a comment`,
    )
  }
})

/** Lines that are neither blank nor comment, of a file or of all below a folder. */
function linesOf(path: string): number {
  const all = files.filter((file) => file === path || file.startsWith(path + sep))
  return all
    .flatMap((file) => read(file).split('\n'))
    .filter((line) => !/^\s*($|\/\/|\/\*|\*)/.test(line)).length
}

test('no room has more lines than its budget', async (t) => {
  const seen = new Set<string>()
  for (const [, links = '', budget = ''] of read('docs/architecture.md').matchAll(
    /^\| (\[.*\]\(\.\.\/(?:src|dev).*?\)) \| .* \| ([\d,]+) \|$/gm,
  )) {
    const paths = [...links.matchAll(/\(\.\.\/([^)]+)\)/g)].map(([, path = '']) => normalize(path))
    for (const path of paths) seen.add(path)
    const lines = paths.reduce((sum, path) => sum + linesOf(path), 0)
    t.ok(lines <= Number(budget.replace(',', '')), `${paths.join(', ')}: ${lines} of ${budget}`)
  }
  for (const file of files) {
    const room = file.split(sep).slice(0, 2).join(sep)
    t.ok(seen.has(room) || file.startsWith('dev'), `${room} has a budget`)
  }
})
