import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { queryObjects } from 'node:v8'
import { type Test, test } from 'tap'
import { stringify } from 'yaml'
import { resourceKey } from '../../../src/models/rules/snapshot.ts'
import type { FileProblem } from '../../../src/models/sources/documents.ts'
import { createFolderSource } from '../../../src/models/sources/folder-source.ts'
import { loadSnapshot } from '../../../src/models/sources/pipeline.ts'
import { createResourceFolder, formatProblem } from '../../../src/models/sources/resource-folder.ts'
import type { Contents } from '../../../src/models/sources/resource-source.ts'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** A folder with these files; a value that is not a string is written as JSON. */
function folderOf(t: Test, files: Readonly<Record<string, unknown>>): string {
  const folder = temporaryFolder(t)
  for (const [name, content] of Object.entries(files)) write(join(folder, name), content)
  return folder
}

function write(path: string, content: unknown): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
}

async function readFolder(folder: string): Promise<Contents> {
  const gathered = await createResourceFolder(folder).poll(0)
  if (gathered === undefined) throw new Error('the first poll found nothing')
  return gathered
}

async function read(folder: string): Promise<{ names: string[]; problems: string[] }> {
  const { resources, problems } = await readFolder(folder)
  return {
    names: resources.map(({ metadata }) => metadata.name),
    problems: problems.map(formatProblem),
  }
}

test('reads every YAML and JSON file', async (t) => {
  const folder = folderOf(t, {
    'a.yaml': modelRef('a'),
    'b.yml': modelRef('b'),
    'c.json': modelRef('c'),
    'sub/deeper/d.yaml': modelRef('d'),
    'sub.yaml/e.yaml': modelRef('e'),
    'sub.yaml/F.YAML': modelRef('f'),
    'sub.yaml/G.Yml': modelRef('g'),
    'README.md': 'not: [read',
    'f.yaml~': modelRef('x'),
    'g.yaml.bak': modelRef('x'),
    '.h.yaml': modelRef('x'),
    '.git/i.yaml': modelRef('x'),
    'sub/.j/k.yaml': modelRef('x'),
    'empty.yaml': '',
  })
  t.strictSame(await read(folder), { names: ['a', 'b', 'c', 'f', 'g', 'e', 'd'], problems: [] })
})

test('a file that is not UTF-8 is a problem', async (t) => {
  const folder = folderOf(t, { 'a.yaml': modelRef('a') })
  const named = JSON.stringify(modelRef('b', { modelIds: ['müller'] }))
  writeFileSync(join(folder, 'b.yaml'), Buffer.from(named, 'latin1'))
  writeFileSync(join(folder, 'c.yaml'), Buffer.from(`\ufeff${named}`, 'utf16le'))
  t.strictSame(await read(folder), {
    names: ['a'],
    problems: ['b.yaml', 'c.yaml'].map(
      (file) => `${file}:1: error: is not UTF-8: save the file in that encoding`,
    ),
  })
})

test('throws if the folder does not exist', async (t) => {
  await t.rejects(readFolder(join(temporaryFolder(t), 'none')), { code: 'ENOENT' })
  await t.rejects(readFolder(join(folderOf(t, { 'a.yaml': '' }), 'a.yaml')), { code: 'ENOTDIR' })
  t.strictSame(
    await read(temporaryFolder(t)),
    { names: [], problems: [] },
    'an empty folder is valid',
  )
})

test('uses the first of two resources with the same name', async (t) => {
  const original = {
    ...modelRef('same'),
    apiVersion: 'maas.opendatahub.io/v1alpha1',
    kind: 'MaaSModelRef',
  }
  const folder = folderOf(t, {
    'b.yaml': `# head\n---\n${JSON.stringify(original)}\n`,
    'a/x.yaml': `\n${JSON.stringify(modelRef('same'))}\n---\n${JSON.stringify(modelRef('same'))}\n`,
    'c.yaml': modelRef('same', {}, 'elsewhere'),
  })
  const { resources, problems } = await readFolder(folder)
  t.strictSame(resources.map(resourceKey), ['ModelRef/llm/same', 'ModelRef/elsewhere/same'])
  const counts = 'ModelRef/llm/same is defined at a/x.yaml:2 already, and that one counts'
  t.strictSame(problems.map(formatProblem), [
    `a/x.yaml:4: error: ${counts}`,
    `b.yaml:3: error: ${counts}`,
  ])
})

test('two Tenants of different limits open nothing', async (t) => {
  const tenant = (spec: object, group = 'tollgate.dev') => ({
    ...{ apiVersion: `${group}/v1alpha1`, kind: 'Tenant' },
    ...{ metadata: { name: 'default-tenant' }, spec },
  })
  const limits = (limit: number) => ({ limits: [{ name: 'all', limit, window: 'day' }] })
  const apiKeys = { maxExpirationDays: 5 }
  const five = tenant({ ...limits(5), apiKeys })
  const open = async (...documents: object[]) => {
    const files = documents.map((document, index) => [`${index}.yaml`, document])
    const { snapshot, problems } = await loadSnapshot(
      folderOf(t, {
        ...Object.fromEntries(files),
        'm.yaml': modelRef('small'),
        's.yaml': subscription('all', { users: ['ada'] }, { 'llm/small': [[5, '1m']] }),
      }),
    )
    t.equal(snapshot.tenant?.maxExpirationDays, 5, 'the rest of it is in force')
    const isOpen = snapshot.subscriptions.get('all')?.phase === 'Active'
    return [isOpen, snapshot.tenant?.limits.length, formatProblem(problems[0] as FileProblem)]
  }
  const both =
    /^1.yaml:1: error: Tenant.* already, with other limits or another calendar: while there are both, nobody may use any model$/
  t.match(await open(five, tenant(limits(6))), [false, 0, both])
  t.match(await open(five, tenant(limits(6)), five), [false, 0, both], 'a third changes nothing')
  t.match(await open(five, tenant({ limits: 5 })), [false, 0, /^1.yaml:1: error: .*spec.limits/])
  t.match(await open(five, tenant({ calendar: { monthStartsOn: 2 } })), [false, 0, both])
  t.match(await open(tenant({ apiKeys }), five), [false, 0, both], 'nor is the first without any')
  const counts = /that one counts$/
  t.match(await open(five, five), [true, 1, counts], 'a copy limits as much')
  t.match(await open(five, tenant({}, 'maas.opendatahub.io')), [true, 1, counts])
})

test('reports unreadable files and reads the others', async (t) => {
  const folder = folderOf(t, {
    'good.yaml': modelRef('good'),
    'large.yaml': `# ${'x'.repeat(4 * 1_048_576)}\n${JSON.stringify(modelRef('large'))}`,
  })
  symlinkSync('nowhere', join(folder, 'dangling.yaml'))
  symlinkSync('loop.yaml', join(folder, 'loop.yaml'))
  execFileSync('mkfifo', [join(folder, 'pipe.yaml')])
  t.strictSame(await read(folder), {
    names: ['good'],
    problems: ['dangling', 'large', 'loop', 'pipe'].map(
      (name) => `${name}.yaml:1: error: cannot be read, or is too large`,
    ),
  })
})

test('a file that was never read may have the Tenant with its limits', async (t) => {
  const spec = { limits: [{ name: 'all', limit: 5, window: 'day' }] }
  const tenant = { apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant', spec }
  const files = {
    'm.yaml': modelRef('small'),
    's.yaml': subscription('all', { users: ['ada'] }, { 'llm/small': [[5, '1m']] }),
  }
  const load = async (more: Record<string, unknown>) => {
    const folder = folderOf(t, { ...files, ...more })
    symlinkSync('nowhere', join(folder, 'z.yaml'))
    const { snapshot, problems } = await loadSnapshot(folder)
    return [snapshot.subscriptions.get('all')?.phase, problems.map(formatProblem).at(-1)]
  }
  const closed = /^z.yaml:1: error: may have the limits of the Tenant.* nobody may use any model$/
  t.match(await load({}), ['Failed', closed])
  const empty = { ...tenant, metadata: { name: 'default-tenant' }, spec: {} }
  t.match(await load({ 't.yaml': empty }), ['Failed', closed], 'it may be a second one')
  const found = await load({ 't.yaml': { ...empty, spec } })
  t.match(found, ['Active', /^z.yaml:1: error: cannot be read/], 'there is but one')
})

test('an unreadable file that appears later closes nothing: nothing of it was in force', async (t) => {
  const folder = folderOf(t, { 'good.yaml': modelRef('good') })
  const polled = createResourceFolder(folder)
  await polled.poll(0)
  symlinkSync('nowhere', join(folder, 'new.yaml'))
  await polled.poll(100)
  t.match(await polled.poll(200), { unknown: undefined, problems: { length: 1 } })
  t.equal(await polled.poll(20_000), undefined)
  rmSync(join(folder, 'new.yaml'))
  write(join(folder, 'new.yaml'), modelRef('new'))
  await polled.poll(20_100)
  t.match(await polled.poll(20_200), { unknown: undefined, problems: { length: 0 } })
})

test('notices a rewrite of equal size that keeps the time of the write', async (t) => {
  const folder = folderOf(t, { 'a.yaml': modelRef('a') })
  const path = join(folder, 'a.yaml')
  utimesSync(path, 1, 1)
  const polled = createResourceFolder(folder)
  await polled.poll(0)
  writeFileSync(path, JSON.stringify(modelRef('b')))
  utimesSync(path, 1, 1)
  for (const now of [100, 200]) await polled.poll(now)
  t.match(await polled.poll(2_000), { resources: { length: 1, 0: { metadata: { name: 'b' } } } })
  t.equal(await polled.poll(2_100), undefined, 'reading is no change')
  chmodSync(path, 0o600)
  for (const now of [2_200, 2_300, 2_400])
    t.equal(await polled.poll(now), undefined, 'nor is chmod')
  t.notOk(polled.unsettled())
})

test('a binary file does not affect the others', async (t) => {
  const folder = folderOf(t, { 'good.yaml': modelRef('good') })
  writeFileSync(join(folder, 'binary.yaml'), Buffer.from('00ff80c3280a', 'hex'))
  const { names, problems } = await read(folder)
  t.strictSame(names, ['good'])
  t.match(problems, [/^binary\.yaml:1: error: /])
})

test('reads a mounted ConfigMap once', async (t) => {
  const folder = folderOf(t, {
    '..2026_01_01/a.yaml': modelRef('a'),
    '..2026_01_01/sub/b.yaml': modelRef('b'),
  })
  symlinkSync('..2026_01_01', join(folder, '..data'))
  symlinkSync('..data/a.yaml', join(folder, 'a.yaml'))
  symlinkSync('..data/sub', join(folder, 'sub'))
  t.strictSame(await read(folder), { names: ['a', 'b'], problems: [] })
})

test('cyclic links end', async (t) => {
  const folder = folderOf(t, { 'a.yaml': modelRef('a'), 'sub/b.yaml': modelRef('b') })
  symlinkSync('..', join(folder, 'sub', 'up'))
  symlinkSync('.', join(folder, 'self'))
  t.strictSame(await read(folder), { names: ['a', 'b'], problems: [] })
})

test('a problem has the file and line of its field', async (t) => {
  const folder = folderOf(t, { 'a.yaml': `\n\n${JSON.stringify(modelRef('a'), null, 1)}` })
  const content = await readFolder(folder)
  t.equal(
    formatProblem(content.locate('ModelRef/llm/a', ['metadata', 'name'], 'is odd')),
    'a.yaml:7: warning: ModelRef a: is odd',
  )
})

/** Counts the changes that a source reports after the first result. */
async function watch(t: Test, folder: string, onChange = (_: Contents): void => {}) {
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  const source = createFolderSource(folder)
  await source.next(closing.signal)
  const reported = { changes: 0, losses: 0 }
  const follow = async (): Promise<void> => {
    while (!closing.signal.aborted) {
      try {
        const gathered = await source.next(closing.signal)
        reported.changes += 1
        onChange(gathered)
      } catch {
        reported.losses += 1
      }
    }
  }
  void follow()
  return { reported, close: () => closing.abort() }
}

test('detects each way of saving a file', async (t) => {
  const folder = folderOf(t, { 'a.yaml': 'a', 'sub/b.yaml': 'b' })
  symlinkSync('nowhere', join(folder, 'dangling.yaml'))
  const { reported } = await watch(t, folder)
  for (const [title, save] of [
    ['in place', () => write(join(folder, 'a.yaml'), 'aa')],
    [
      'by rename, same size',
      () => {
        write(join(folder, '.a.yaml.swp'), 'bb')
        renameSync(join(folder, '.a.yaml.swp'), join(folder, 'a.yaml'))
      },
    ],
    ['in a subfolder', () => write(join(folder, 'sub/b.yaml'), 'bb')],
    ['a new file', () => write(join(folder, 'c.yaml'), 'c')],
    ['a new folder', () => write(join(folder, 'new/d.yaml'), 'd')],
    ['a new name', () => renameSync(join(folder, 'c.yaml'), join(folder, 'e.yaml'))],
    ['a deleted file', () => rmSync(join(folder, 'e.yaml'))],
    ['the folder back', () => write(join(folder, 'a.yaml'), 'a')],
  ] as const) {
    const before = reported.changes
    save()
    await poll(() => reported.changes > before, title)
    t.equal(reported.changes, before + 1, title)
  }
})

test('a folder may be deleted and recreated', async (t) => {
  const folder = folderOf(t, { 'a.yaml': modelRef('a') })
  const names: string[] = []
  const { reported } = await watch(t, folder, ({ resources }) => {
    for (const { metadata } of resources) names.push(metadata.name)
  })
  rmSync(folder, { recursive: true })
  await poll(() => reported.losses > 0, 'the folder is missing')
  t.equal(reported.changes, 0, 'which is not a change')
  write(join(folder, 'b.yaml'), modelRef('b'))
  await poll(() => reported.changes > 0, 'the folder is back')
  await poll(() => names.at(-1) === 'b', 'its new content')
})

test('unchanged documents keep their objects', async (t) => {
  const folder = folderOf(t, {
    'a.yaml': modelRef('a'),
    'b.yaml': `---\n${JSON.stringify(modelRef('b'))}\n---\n${JSON.stringify(modelRef('c'))}\n`,
  })
  const polled = createResourceFolder(folder)
  const before = (await polled.poll(0))?.resources ?? []
  t.equal(await polled.poll(1), undefined, 'no change')
  write(join(folder, 'touched'), '')
  renameSync(join(folder, 'touched'), join(folder, 'd.yaml'))
  const longer = JSON.stringify(modelRef('d', { modelIds: ['more than before'] }))
  write(join(folder, 'b.yaml'), `---\n${longer}\n---\n${JSON.stringify(modelRef('b'))}\n`)
  t.equal(await polled.poll(2), undefined, 'a change must be seen twice')
  const after = (await polled.poll(20_000)) ?? (await polled.poll(40_000))
  const names = (resources: Contents['resources'] = []) =>
    resources.map(({ metadata }) => metadata.name)
  t.strictSame(names(after?.resources), ['a', 'd', 'b'])
  t.equal(after?.resources[0], before[0])
  t.equal(after?.resources[2], before[1])
})

test('detects the swap of a ConfigMap', async (t) => {
  const folder = folderOf(t, { '..1/a.yaml': 'a', '..2/a.yaml': 'b' })
  symlinkSync('..1', join(folder, '..data'))
  symlinkSync('..data/a.yaml', join(folder, 'a.yaml'))
  const { reported } = await watch(t, folder)
  symlinkSync('..2', join(folder, '..data_tmp'))
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  await poll(() => reported.changes === 1, 'the swap is detected')
})

test('ignores other files', async (t) => {
  const folder = folderOf(t, { 'a.yaml': 'a' })
  const { reported } = await watch(t, folder)
  write(join(folder, 'README.md'), 'x')
  write(join(folder, '.a.yaml.swp'), 'x')
  write(join(folder, 'a.yaml'), 'changed')
  await poll(() => reported.changes > 0, 'a.yaml has changed')
  t.equal(reported.changes, 1)
})

test('waits until a file is no longer being written', async (t) => {
  const folder = folderOf(t, { 'a.yaml': '' })
  const { reported } = await watch(t, folder)
  for (let size = 1; size <= 50; size += 1) {
    write(join(folder, 'a.yaml'), 'x'.repeat(size))
    await delay(20)
  }
  t.equal(reported.changes, 0)
  await poll(() => reported.changes === 1, 'the complete file is read')
})

test('does not miss a change during a load', async (t) => {
  const folder = folderOf(t, { 'a.yaml': 'a' })
  const { reported } = await watch(t, folder, () => {
    if (reported.changes === 1) write(join(folder, 'a.yaml'), 'changed while loading')
  })
  write(join(folder, 'a.yaml'), 'changed')
  await poll(() => reported.changes === 2, 'the second change is seen')
})

test('a closed watch reports nothing', async (t) => {
  const folder = folderOf(t, { 'a.yaml': 'a' })
  const closed = await watch(t, folder)
  const open = await watch(t, folder)
  closed.close()
  write(join(folder, 'a.yaml'), 'changed')
  await poll(() => open.reported.changes === 1, 'the open watch reports the change')
  t.equal(closed.reported.changes, 0)
})

test('reading many files does not block the event loop', async (t) => {
  const documents = Array.from({ length: 3_000 }, (_, i) => JSON.stringify(modelRef(`m-${i}`)))
  const users = Array.from({ length: 10_000 }, (_, i) => `user-${i}@example.com`)
  const folder = folderOf(t, {
    'many.yaml': documents.join('\n---\n'),
    // As many as one policy may have.
    'long.yaml': stringify(accessPolicy('long', ['llm/m-0'], { users: users.slice(0, 5_000) })),
    'longer.yaml': stringify(accessPolicy('longer', ['llm/m-0'], { users: users.slice(5_000) })),
  })
  let longest = 0
  let isOver = false
  const watchLoop = (since: number): void => {
    // CPU time of this thread, which does not depend on the load of the machine.
    const { user, system } = process.threadCpuUsage()
    const now = (user + system) / 1_000
    longest = Math.max(longest, now - since)
    if (!isOver) setImmediate(watchLoop, now)
  }
  watchLoop(Number.POSITIVE_INFINITY)
  const { snapshot } = await loadSnapshot(folder)
  isOver = true
  t.equal(snapshot.models.size, 3_000)
  t.equal(snapshot.models.get('llm/m-0')?.users.size, 10_000)
  t.ok(longest < 100, `${longest} ms of CPU time between two turns of the event loop`)
})

test('a document that stays does not retain earlier texts of its file', async (t) => {
  const versions = Array.from({ length: 40 }, () => 0)
  const filler = '# '.padEnd(1_100_000, 'and so on ')
  const textOf = () =>
    versions
      .map(
        (version, i) => `---\n${stringify(modelRef(`a-model-with-a-long-name-${i}-${version}`))}`,
      )
      .join('')
  const folder = folderOf(t, { 'a.yaml': textOf() + filler })
  const reader = createResourceFolder(folder)
  await reader.poll(0)
  const retained = () => {
    // It collects garbage first.
    queryObjects(Map, { format: 'count' })
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
  const before = retained()
  let last: Contents | undefined
  for (const i of versions.keys()) {
    versions[i] = 1
    write(join(folder, 'fresh'), textOf() + filler)
    renameSync(join(folder, 'fresh'), join(folder, 'a.yaml'))
    await reader.poll(2 * i + 1)
    last = await reader.poll(2 * i + 2)
  }
  const bytes = retained() - before
  t.equal(last?.resources.filter(({ metadata }) => metadata.name.endsWith('-1')).length, 40)
  t.ok(bytes < 10_000_000, `${bytes} bytes`)
})
