import { test } from 'tap'
import type { AccessRequest } from '../../src/decide/access-request.ts'
import { authorize } from '../../src/decide/decide.ts'
import type { Decision } from '../../src/decide/decision.ts'
import { allowsOneChoiceOnly, refuseMoreChoices } from '../../src/decide/steps/operation.ts'
import { createLimitEnforcer } from '../../src/extauthz/check-limits.ts'
import { pathRules } from '../../src/operations/operations.ts'
import { parseTarget } from '../../src/operations/request-target.ts'
import { createMemoryHolds } from '../../src/ratelimit/holds/memory-holds.ts'
import { createEstimators } from '../../src/ratelimit/rules/estimates/estimators.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'

const rules = pathRules(['chat', 'responses', 'messages'])
const one = { output: { usageOfAllAnswers: false } }
const [chat, completions] = ['/v1/chat/completions', '/v1/completions']

test('one answer only is taken where others would not be counted', async (t) => {
  const takes = (spec: object, operation: string, by = rules, isLlamaCpp = false) => {
    const snapshot = snapshotOf(modelRef('small', spec))
    const servedNames = { ...snapshot.servedNames, isLlamaCpp: () => isLlamaCpp }
    return allowsOneChoiceOnly(snapshot.models.get('llm/small')!, operation, by, { servedNames })
  }
  t.ok(takes(one, chat))
  for (const spec of [{}, { output: {} }, { output: { usageOfAllAnswers: true } }]) {
    t.notOk(takes(spec, chat))
  }
  t.notOk(takes(one, completions), 'not counted')
  t.ok(takes(one, completions, pathRules(['completions'])))
  for (const operation of ['/v1/responses', '/v1/messages']) t.notOk(takes(one, operation))
  t.ok(takes({}, chat, rules, true), "llama.cpp's server")
  t.notOk(takes({ output: { usageOfAllAnswers: true } }, chat, rules, true))
  t.notOk(takes({}, completions, rules, true))
})

test('more than one answer is refused, and what cannot be told', async (t) => {
  for (const size of [{}, { choices: 1 }]) t.equal(refuseMoreChoices(size), undefined)
  t.match(
    refuseMoreChoices({ choices: 2 }),
    /2 answers.*\(n, n_cmpl, best_of, prompt\).*usageOfAll/,
  )
  const problem = 'a field must be spelled exactly n'
  for (const choices of [1, 2]) t.equal(refuseMoreChoices({ choices, problem }), problem)
})

test('before the body is read only what is used up refuses', async (t) => {
  const team = { groups: ['team'] }
  const snapshot = snapshotOf(
    modelRef('one', one),
    accessPolicy('open', ['llm/one'], team),
    subscription('basic', team, { 'llm/one': [[100, '1h']] }),
  )
  const caller = { by: 'key', user: 'ada', ...team, keyId: 'id', subscription: 'basic' } as const
  let taken = 0
  const holds = createMemoryHolds(() => {
    taken += 1
    return []
  })
  const ask = async (more: Partial<AccessRequest>, used = 0): Promise<Decision> => {
    const target = parseTarget(`/llm/one${chat}`)
    if (target === undefined) throw new Error('no target')
    const asked = { caller, target, method: 'POST', bodyModel: undefined, ...more }
    const request = { ...asked, requestedSubscription: undefined }
    const granted = authorize(request, snapshot, rules)
    const limits = createLimitEnforcer({
      counters: { read: (counters) => counters.map(() => ({ used, resetsAt: 60_000 })) },
      holding: { holds, estimators: createEstimators(), onLoss: 'deny' },
    })
    return granted.allowed ? limits(granted, request, 0) : granted
  }
  const size = (choices: number) => ({ bytes: 9, maxOutput: undefined, choices })
  t.match(await ask({ isUnread: true, size: size(2) }), { allowed: true, isUnread: true })
  t.match(await ask({ isUnread: true }, 100), { allowed: false, code: 'token_limit_exceeded' })
  t.match(await ask({ size: size(2) }), { allowed: false, code: 'invalid_body' })
  t.match(await ask({ size: size(1) }), { allowed: true, isUnread: undefined })
  t.match(await ask({}), { allowed: true })
  t.equal(taken, 0)
})
