import { pino } from 'pino'
import { test } from 'tap'
import { createResourceLogger } from '../../../src/models/sources/resource-report.ts'
import { maxLinesShown } from '../../../src/runtime/line-limit.ts'
import { compile } from '../../support/compile.ts'
import { modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { httpRoute, joinAll, toService } from '../../support/routes.ts'

/** A report, and its log lines since they were last read. */
function begin() {
  let lines: string[] = []
  const log = pino(
    { base: null, timestamp: false },
    {
      write(line: string) {
        const { problem, msg } = JSON.parse(line) as { problem?: string; msg: string }
        lines.push(problem ?? msg)
      },
    },
  )
  return {
    report: createResourceLogger(log),
    logged() {
      const taken = lines.filter((line) => line !== 'resources in force')
      lines = []
      return taken
    },
  }
}

test('a problem is logged when it appears, not while it lasts', async (t) => {
  const { report, logged } = begin()
  const nothing = compile([])
  for (const [problems, lines] of [
    [
      ['a', 'b'],
      ['a', 'b'],
    ],
    [['b', 'a'], []],
    [['b', 'c'], ['c']],
    [['a', 'b', 'c'], ['a']],
    [[], []],
  ] as const) {
    report(nothing, problems)
    t.strictSame(logged(), lines)
  }
})

test('thousands of problems are few lines', async (t) => {
  const { report, logged } = begin()
  report(
    compile([]),
    Array.from({ length: 5_000 }, (_, i) => `problem ${i}`),
  )
  const lines = logged()
  t.equal(lines.length, maxLinesShown + 1)
  t.equal(lines.at(-1), 'more resource problems are not logged')
})

test('a shared priority is logged once per change', async (t) => {
  const { report, logged } = begin()
  const limits = { 'llm/small': [[1, '1m']] } as const
  const sharing = (...names: readonly string[]) =>
    snapshotOf(modelRef('small'), ...names.map((name) => subscription(name, {}, limits)))
  report(sharing('a', 'b', 'c'), [])
  t.strictSame(logged(), ['priority 0 is shared by 3 Subscriptions: a, b, c'])
  report(sharing('a', 'b', 'c'), [])
  t.strictSame(logged(), [])
  report(sharing('a', 'b'), [])
  t.strictSame(logged(), ['priority 0 is shared by 2 Subscriptions: a, b'])
  report(sharing('a'), [])
  t.strictSame(logged(), [])
})

test('a route that bypasses us is logged once', async (t) => {
  const { report, logged } = begin()
  const routing = { internalGateway: 'gateways/models', clusterDomain: 'cluster.local' }
  const on = (...gateways: readonly string[]) => {
    const parentRefs = gateways.map((name) => ({ name, namespace: 'gateways' }))
    const route = httpRoute({ spec: { parentRefs, rules: [toService('small')] } })
    return compile(joinAll([modelRef('small', { backendUrl: undefined }), route], routing))
  }
  const line =
    'the model llm/small can be reached past Tollgate by the HTTPRoute llm/small-kserve-route on the Gateway gateways/public'
  for (const [gateways, lines] of [
    [['models'], []],
    [['models', 'public'], [line]],
    [['public', 'models'], []],
    [['models'], []],
    [['public'], [line]],
  ] as const) {
    report(on(...gateways), [])
    t.strictSame(logged(), lines, gateways.join())
  }
})
