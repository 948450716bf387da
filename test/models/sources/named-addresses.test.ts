import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { createAddressRules } from '../../../src/gateway/model-address.ts'
import type { Resource } from '../../../src/kinds/resources.ts'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import {
  checkNamedAddresses,
  createHostResolver,
} from '../../../src/models/sources/named-addresses.ts'
import { startPipeline } from '../../../src/models/sources/pipeline.ts'
import type { Contents } from '../../../src/models/sources/resource-source.ts'
import { startDnsServer } from '../../support/dns-server.ts'
import { modelRef, resourceOf } from '../../support/documents.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const rules = createAddressRules({
  listeners: [{ setting: 'INTERNAL_ADDRESS', host: '127.0.0.1', port: 8081 }],
  allowed: [],
  opensLoopback: true,
})

/** A controller of these models (name → URL), with a zone that can change. */
async function start(
  t: Test,
  first: Readonly<Record<string, string>>,
  hosts: readonly string[] = [],
) {
  const zone: Record<string, string | undefined | null> = {}
  const port = await startDnsServer(t, (name) => zone[name])
  const hostsFile = join(temporaryFolder(t, { hosts: hosts.join('\n') }), 'hosts')
  const closing = new AbortController()
  const known = new Map<string, Resource>()
  let waiting = Promise.withResolvers<Contents>()
  const put = (models: Readonly<Record<string, string>>) => {
    const resources = Object.entries(models).map(([name, backendUrl]) => {
      const key = `${name} ${backendUrl}`
      const resource = known.get(key) ?? (resourceOf(modelRef(name, { backendUrl })) as Resource)
      known.set(key, resource)
      return resource
    })
    waiting.resolve({
      resources,
      problems: [],
      refused: [],
      locate: (resource, _path, message) => ({
        ...{ file: resource, line: 1, severity: 'error', message },
      }),
    })
  }
  put(first)
  const checked = checkNamedAddresses({
    source: {
      async next() {
        const gathered = await waiting.promise
        waiting = Promise.withResolvers()
        return gathered
      },
    },
    rules,
    resolve: createHostResolver({ servers: [`127.0.0.1:${port}`], hostsFile }),
    signal: closing.signal,
    restMs: 50,
  })
  let snapshot: Snapshot | undefined
  let published = 0
  const controller = await startPipeline({
    source: checked.source,
    checkAddress: checked.check,
    async publish(fresh) {
      snapshot = fresh
      published += 1
    },
    report() {},
    onFailure: (error) => t.fail(String(error)),
  })
  t.teardown(() => {
    controller.close()
    closing.abort()
  })
  return {
    zone,
    put,
    isServed: (name: string) => snapshot?.models.get(`llm/${name}`)?.cluster !== undefined,
    problems: () => controller.problems().join('\n'),
    published: () => published,
  }
}

test('a model is judged by what its name leads to', async (t) => {
  const { zone, put, isServed, problems, published } = await start(t, {
    good: 'http://good.example:8081',
  })
  zone['good.example'] = '10.0.0.5'
  t.ok(isServed('good'))
  const models = {
    good: 'http://good.example:8081',
    ours: 'http://evil.example:8081',
    beside: 'http://evil.example:9000',
    cloud: 'http://meta.example',
  }
  zone['evil.example'] = '127.0.0.1'
  zone['meta.example'] = '169.254.169.254'
  put(models)
  await poll(
    () => /INTERNAL_ADDRESS/.test(problems()) && /169\.254\.169\.254/.test(problems()),
    'both are reported',
  )
  t.notOk(isServed('ours') || isServed('cloud'))
  t.ok(isServed('good') && isServed('beside'), 'the others are served')

  zone['meta.example'] = '10.0.0.6'
  await poll(() => isServed('cloud'), 'it is served once its name leads elsewhere')
  zone['good.example'] = '169.254.1.1'
  await poll(() => !isServed('good'), 'a name that changes is noticed')
  zone['good.example'] = undefined
  await delay(200)
  t.notOk(isServed('good'), 'a name without an address takes nothing back')

  const before = published()
  await delay(200)
  t.equal(published(), before, 'nothing is published without a change')
  put({ good: models.good })
  await poll(() => published() > before, 'changes of resources are published')
  t.notOk(isServed('good'))
})

test('names whose server does not answer delay no others', async (t) => {
  const dead = Object.fromEntries(
    Array.from({ length: 150 }, (_, i) => [`dead-${i}`, `http://${i}.dead.example`]),
  )
  const models = { ...dead, moved: 'http://moved.example' }
  const { zone, put, isServed } = await start(t, {})
  for (let i = 0; i < 150; i += 1) zone[`${i}.dead.example`] = null
  zone['moved.example'] = '10.0.0.5'
  zone['new.example'] = '169.254.169.254'
  put(models)
  await poll(() => isServed('moved'), 'they are known')
  zone['moved.example'] = '169.254.169.254'
  await poll(() => !isServed('moved'), 'a change is noticed')
  put({ ...models, new: 'http://new.example', ours: 'http://new.example:81' })
  await poll(() => isServed('dead-149') && !isServed('new'), 'a new name is judged')
})

test('the hosts file counts too', async (t) => {
  const models = { good: 'http://good.example', cloud: 'http://Meta.Example' }
  const { zone, isServed, problems } = await start(t, models, [
    '# 169.254.169.254 good.example',
    '169.254.169.254\tother meta.example # as on some clouds',
    'none good.example',
  ])
  zone['meta.example'] = '10.0.0.5'
  await poll(() => !isServed('cloud'), 'the address of the file is judged')
  t.match(problems(), /169\.254\.169\.254/)
  t.ok(isServed('good'))
})
