import { test } from 'tap'
import { authorize } from '../../src/decide/decide.ts'
import { createUncountedLog } from '../../src/extauthz/uncounted-log.ts'
import { type MeterName, pathRules } from '../../src/operations/operations.ts'
import { parseTarget } from '../../src/operations/request-target.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'

const team = { groups: ['team'] }
const snapshot = snapshotOf(
  modelRef('sim', { backendUrl: 'http://sim:8000/base', modelIds: ['sim'] }),
  accessPolicy('open', ['llm/sim'], team),
  subscription('all', team, { 'llm/sim': [[1, '1m']] }),
)
const caller = {
  by: 'key',
  user: 'ada',
  groups: ['team'],
  keyId: 'k',
  subscription: 'all',
} as const

/** What is said about these requests, one after the other. */
function saidOf(metered: readonly MeterName[], requests: readonly string[]): string[] {
  const rules = pathRules(metered)
  const said: string[] = []
  const note = createUncountedLog(rules, (path, setting) => said.push(`${path} ${setting}`))
  for (const path of requests) {
    const request = { caller, method: 'POST', bodyModel: 'sim', requestedSubscription: undefined }
    note(authorize({ ...request, target: parseTarget(path)! }, snapshot, rules))
  }
  return said
}

test('a path that could be counted is named once', async (t) => {
  const all = ['/v1/messages', '/llm/sim/v1/messages?beta=true', '/v1/chat/completions']
  t.strictSame(saidOf(['chat'], [...all, '/v1/responses', ...all]), [
    '/v1/messages chat,messages',
    '/v1/responses chat,messages,responses',
  ])
  t.strictSame(
    saidOf(['chat', 'messages'], [...all, '/v1/rerank', '/v1/messages/count_tokens']),
    [],
  )
})

test('a refused request is not named', async (t) => {
  t.strictSame(saidOf(['chat'], ['/llm/none/v1/messages']), [])
})
