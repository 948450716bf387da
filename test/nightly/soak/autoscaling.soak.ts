/** The autoscaler by CPU under load, on nodes of this machine with a metrics-server: 1, 5 and 1 pods. */

import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { gatewayPods, kubectl, noOwnNodes, rolledOut } from '../../support/kubernetes/cluster.ts'
import { watchGateway } from '../../support/kubernetes/gateway-watch.ts'
import {
  applyProduction,
  makeKey,
  namespaced,
  prepareStores,
} from '../../support/kubernetes/installation.ts'
import { startLoad, usedBy } from '../../support/kubernetes/user-pod.ts'
import { poll } from '../../support/poll.ts'

/**
 * Quicker than production. The target, 30m, is between what Envoy uses with few requests, up to 27m in one pod, and
 * what it uses with as many as two processors serve; the service uses too much without requests for that.
 */
const quick = {
  minReplicas: 1,
  maxReplicas: 5,
  metrics: [
    {
      type: 'ContainerResource',
      containerResource: {
        ...{ container: 'envoy', name: 'cpu' },
        target: { type: 'Utilization', averageUtilization: 15 },
      },
    },
  ],
  behavior: {
    scaleUp: { policies: [{ type: 'Pods', value: 4, periodSeconds: 15 }] },
    scaleDown: {
      stabilizationWindowSeconds: 30,
      policies: [{ type: 'Pods', value: 4, periodSeconds: 15 }],
    },
  },
}

/** Lets a model server print, each second, the tokens of everything that it has answered. */
const tally = `
import { ServerResponse } from 'node:http'
let tokens = 0
const { end } = ServerResponse.prototype
ServerResponse.prototype.end = function (text, ...rest) {
  if (String(text).startsWith('{')) tokens += JSON.parse(text).usage?.total_tokens ?? 0
  return end.call(this, text, ...rest)
}
setInterval(() => console.log(tokens), 1_000)`

async function startTally(): Promise<void> {
  const options = `NODE_OPTIONS=--import=data:text/javascript,${encodeURIComponent(tally)}`
  await kubectl([...namespaced, 'set', 'env', 'deployment/sample-model', options])
  await rolledOut('sample-model')
}

async function served(): Promise<number> {
  return Number(await kubectl([...namespaced, 'logs', '--tail=1', 'deployment/sample-model']))
}

/** What is counted when nothing is added any more. */
async function settled(key: string): Promise<number> {
  for (let last = -1; ; ) {
    const now = await usedBy(key)
    if (now === last) return now
    last = now
    await delay(5_000)
  }
}

test('pods come and go with the load, no sum is lost', { skip: noOwnNodes }, async (t) => {
  await prepareStores()
  await startTally()
  await applyProduction(t)
  const key = await makeKey(t)
  const hpa = 'horizontalpodautoscaler/tollgate-gateway'
  await kubectl([
    ...namespaced,
    'patch',
    hpa,
    '--type=merge',
    '-p',
    JSON.stringify({ spec: quick }),
  ])
  const names = new Set<string>()
  const runs = (count: number) =>
    poll(
      async () => {
        await delay(2_000)
        const pods = await gatewayPods()
        for (const { name } of pods) names.add(name)
        return pods.length === count && pods.every(({ isReady }) => isReady)
      },
      `${count} pods`,
      600_000,
    )
  await runs(1)
  const before = { counted: await settled(key), served: await served() }
  const watch = watchGateway()
  t.teardown(watch.stop)
  const startedAt = performance.now()
  const seconds = () => Math.round((performance.now() - startedAt) / 1_000)
  const load = await startLoad(key, 200)
  await runs(5)
  t.comment(`5 pods after ${seconds()} s`)
  const much = await load.stop()
  // Pods end while they serve.
  const some = await startLoad(key, 5)
  await runs(1)
  t.comment(`1 pod after ${seconds()} s`)
  const little = await some.stop()
  t.comment(JSON.stringify([much.counts, little.counts]))
  const failures = [...much.failures, ...little.failures]
  for (const line of watch.explain(failures)) t.comment(line)
  t.strictSame(
    [much, little].map(({ counts }) => Object.keys(counts)),
    [['200'], ['200']],
  )
  t.ok(names.size >= 5, `${names.size} pods have served`)
  const counted = (await settled(key)) - before.counted
  const tokens = (await served()) - before.served
  t.comment(`${counted} tokens counted, ${tokens} served, ${much.tokens + little.tokens} received`)
  t.equal(counted, tokens, 'every response is counted, and counted once')
})
