import {
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { stringify } from 'yaml'
import type { Tenant } from '../../../src/kinds/resources.ts'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import { createFolderSource } from '../../../src/models/sources/folder-source.ts'
import { completeAfterMs, maxTornMs } from '../../../src/models/sources/last-good.ts'
import { startPipeline } from '../../../src/models/sources/pipeline.ts'
import { createResourceFolder, formatProblem } from '../../../src/models/sources/resource-folder.ts'
import type { Contents } from '../../../src/models/sources/resource-source.ts'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const small = modelRef('small')
const open = accessPolicy('open', ['llm/small'], { users: ['ada', 'bob', 'eve'] })
const team = subscription('team', { groups: ['a', 'b'] }, { 'llm/small': [[5, '1m']] })
const text = (...documents: readonly unknown[]): string =>
  documents.map((document) => stringify(document)).join('---\n')
const whole = text(small, open, team)

/** A folder with one file and a clock that the test moves. */
async function begin(t: Test, content = whole) {
  const path = join(temporaryFolder(t), 'all.yaml')
  writeFileSync(path, content)
  const folder = createResourceFolder(join(path, '..'))
  let now = 0
  let latest = (await folder.poll(now)) as Contents
  return {
    inPlace: (fresh: string) => writeFileSync(path, fresh),
    byRename(fresh: string) {
      writeFileSync(join(path, '..', '.fresh'), fresh)
      renameSync(join(path, '..', '.fresh'), path)
    },
    remove: () => rmSync(path),
    /** Moves the clock, with a poll every 100 ms. */
    async wait(ms: number) {
      for (const end = now + ms; now < end; ) {
        now = Math.min(end, now + 100)
        latest = (await folder.poll(now)) ?? latest
      }
    },
    names: () => latest.resources.map(({ metadata }) => metadata.name).join(),
    latest: () => latest,
    problems: () => latest.problems.map(formatProblem),
  }
}

test('a file that is rewritten in place loses nothing, wherever it is cut', async (t) => {
  const file = await begin(t)
  const { resources } = file.latest()
  for (let length = 0; length < whole.length; length += 1) {
    file.inPlace(whole.slice(0, length))
    await file.wait(300)
    if (file.latest().resources.length !== 3) t.fail(`cut after ${length} bytes: ${file.names()}`)
    const all = new Set(file.latest().resources)
    for (const resource of resources) if (!all.has(resource)) t.fail(`cut after ${length} bytes`)
    if (file.problems().length > 0) t.fail(`${length} bytes: ${file.problems()}`)
    file.inPlace(whole)
    await file.wait(300)
  }
  t.equal(file.names(), 'small,open,team')
})

test('a file that stays torn is reported after five seconds', async (t) => {
  for (const [torn, names, problem] of [
    ['', '', undefined],
    [text(small, open).slice(0, -1), 'small,open', undefined],
    [`${text(small, open)}---\nkind: [`, 'small,open', /not valid YAML/],
    [text(small, { ...open, spec: 5 }, team), 'small,team', /AccessPolicy open: spec must be/],
  ] as const) {
    for (const save of ['inPlace', 'byRename'] as const) {
      const file = await begin(t)
      file[save](torn)
      const held = names === '' || problem !== undefined
      await file.wait(held ? maxTornMs - 200 : 100)
      t.strictSame(
        [...file.names().split(',')].sort(),
        ['open', 'small', 'team'],
        `${save} ${names}`,
      )
      t.strictSame(file.problems(), [])
      await file.wait(held ? 500 : completeAfterMs + 200)
      t.equal(file.names(), names, `${save} ${names}`)
      t.match(file.problems(), problem === undefined ? [] : [problem])
      file.inPlace(whole)
      await file.wait(200)
      t.equal(file.names(), 'small,open,team')
    }
  }
})

test('resources missing from a complete file are removed', async (t) => {
  const renamed = await begin(t)
  renamed.byRename(text(small, team))
  await renamed.wait(200)
  t.equal(renamed.names(), 'small,team', 'replaced by rename')

  const rewritten = await begin(t)
  rewritten.inPlace(text(small, team))
  await rewritten.wait(completeAfterMs + 300)
  t.equal(rewritten.names(), 'small,team', 'rewritten in place')

  const removed = await begin(t)
  removed.remove()
  await removed.wait(200)
  t.equal(removed.names(), '', 'the file was deleted')
})

test('valid changes in a torn file take effect at once', async (t) => {
  const file = await begin(t)
  const shut = accessPolicy('open', ['llm/small'], { users: ['ada'] })
  file.inPlace(`${text(small, shut, modelRef('new'))}---\n${text(team).slice(0, 40)}`)
  await file.wait(200)
  t.equal(file.names(), 'small,open,new,team')
  t.match(file.latest().resources[1], { subjects: { users: ['ada'] } })
  t.strictSame(file.problems(), [])
})

test('content that was never valid is reported at once', async (t) => {
  const file = await begin(t)
  file.inPlace(`${whole}---\nkind: [`)
  await file.wait(200)
  t.equal(file.names(), 'small,open,team')
  t.match(file.problems(), [/not valid YAML/])
  file.byRename(`${text(small)}---\nkind: [`)
  await file.wait(200)
  t.equal(file.names(), 'small', 'resources missing from the file are still removed')
})

test('a broken Tenant that may have limits is never no Tenant', async (t) => {
  const limits = [{ name: 'all', per: 'installation', limit: 5, window: 'day' }]
  const tenant = (spec: object) => ({
    ...{ apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant' },
    metadata: { name: 'default-tenant', namespace: 'models-as-a-service' },
    spec,
  })
  const good = text(small, tenant({ limits }))
  const file = await begin(t, good)
  const states = () =>
    file.latest().resources.map((each) => {
      if (each.kind !== 'Tenant') return each.kind
      return each.unreadable === undefined ? each.limits.length : 'unreadable'
    })
  t.strictSame(states(), ['ModelRef', 1])
  for (const torn of [good.slice(0, -3), `${good}  : [`, text(small, tenant({ limits: {} }))]) {
    file.inPlace(torn)
    await file.wait(200)
    t.strictSame(states().toSorted(), [1, 'ModelRef'], 'it may be being written')
    await file.wait(maxTornMs + 100)
    t.strictSame(states(), ['ModelRef', 'unreadable'], torn)
    file.inPlace(good)
    await file.wait(maxTornMs)
    t.strictSame(states(), ['ModelRef', 1])
  }
  file.byRename(text(small))
  await file.wait(200)
  t.strictSame(states(), ['ModelRef'], 'one that is taken away is none')
  file.byRename(`${text(small)}---\n{"kind": "Tenant", "spec": {"limits": [}}`)
  await file.wait(200)
  t.strictSame(states(), ['ModelRef', 'unreadable'], 'nothing before it is needed')
  file.byRename(`${text(small)}---\nkind: Tenant\nspec: {calendar: [}`)
  await file.wait(200)
  t.strictSame(states(), ['ModelRef', 'unreadable'], 'a calendar begins other counters')
  file.byRename(`${text(small)}---\nkind: Tenant\nspec: [`)
  await file.wait(200)
  t.strictSame(states(), ['ModelRef'])
})

/** What the Tenant of a file that `hide` makes unreadable limits: five seconds before and after. */
async function hidden(t: Test, content: string, hide: (path: string) => void) {
  const path = join(temporaryFolder(t), 'sub', 'all.yaml')
  mkdirSync(join(path, '..'))
  writeFileSync(path, content)
  const folder = createResourceFolder(join(path, '../..'))
  let latest = (await folder.poll(0)) as Contents
  const wait = async (from: number, until: number) => {
    for (let now = from; now < until; now += 100) latest = (await folder.poll(now)) ?? latest
    const [tenant] = latest.resources.filter(({ kind }) => kind === 'Tenant') as Tenant[]
    const limits = tenant?.unreadable === undefined ? tenant?.limits.length : 'unreadable'
    return [limits, latest.resources.length, latest.problems.map(formatProblem).join()]
  }
  hide(path)
  return {
    path,
    before: await wait(100, maxTornMs),
    after: await wait(maxTornMs, maxTornMs + 500),
    wait,
  }
}

const limited = {
  ...{ apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant', metadata: { name: 'default-tenant' } },
  spec: { limits: [{ name: 'all', per: 'installation', limit: 5, window: 'day' }] },
}

test('the limits of a Tenant whose file cannot be read any more do not vanish', async (t) => {
  const broken = 'sub/all.yaml:1: error: cannot be read, or is too large'
  const had = `${broken}: it had the limits of the Tenant, so nobody may use any model`
  const ways: Record<string, (path: string) => void> = {
    'a broken link': (path) => {
      rmSync(path)
      symlinkSync('nowhere', path)
    },
    'a file that is too large': (path) => writeFileSync(path, `#${' '.repeat(4 * 1_048_576)}`),
    'a broken link to its folder': (path) => {
      rmSync(join(path, '..'), { recursive: true })
      symlinkSync('nowhere', join(path, '..'))
    },
  }
  for (const [title, hide] of Object.entries(ways)) {
    const { path, before, after, wait } = await hidden(t, text(small, limited), hide)
    t.strictSame(before, [1, 2, ''], `${title} may be put right at once`)
    t.strictSame(after, ['unreadable', 1, had], title)
    rmSync(title.endsWith('folder') ? join(path, '..') : path)
    t.strictSame(await wait(20_000, 21_000), [undefined, 0, ''], 'one that is deleted has none')
    const other = await hidden(t, text(small), hide)
    t.strictSame(other.after, [undefined, 0, broken], 'nor had one without a Tenant any')
  }
})

test('a faulty Tenant is in force while its file is written', async (t) => {
  const faulty = { ...limited, spec: { limits: {} } }
  const file = await begin(t, text(small, faulty))
  const isClosed = () =>
    file.latest().resources.some((each) => each.kind === 'Tenant' && each.unreadable !== undefined)
  t.ok(isClosed())
  for (const torn of ['', 'kind: [']) {
    file.inPlace(torn)
    await file.wait(300)
    t.ok(isClosed(), torn)
    file.inPlace(text(small, faulty))
    await file.wait(300)
  }
})

test('slowly written files remove no access', async (t) => {
  const folder = temporaryFolder(t)
  const path = join(folder, 'all.yaml')
  writeFileSync(path, whole)
  const published: Snapshot[] = []
  const controller = await startPipeline({
    source: createFolderSource(folder),
    async publish(snapshot) {
      published.push(snapshot)
    },
    report() {},
    onFailure: (error) => t.fail(String(error)),
  })
  t.teardown(() => controller.close())
  const longer = text(small, open, team, modelRef('new'))
  const file = openSync(path, 'w')
  for (let at = 0; at < longer.length; at += Math.ceil(longer.length / 10)) {
    writeSync(file, longer.slice(at, at + Math.ceil(longer.length / 10)))
    await delay(400)
  }
  await poll(() => published.at(-1)?.models.size === 2, 'the whole file is read')
  for (const { models, subscriptions } of published) {
    t.strictSame(models.get('llm/small')?.users, new Set(['ada', 'bob', 'eve']))
    t.equal(subscriptions.get('team')?.phase, 'Active')
  }
  t.strictSame(controller.problems(), [])
})
