import { join } from 'node:path'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { type Gateway, gatewayTests } from '../../support/gateway.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startAgentModel } from './agent-model.ts'
import { agents } from './agents.ts'
import { hasTool, installPackages, runToEnd } from './libraries.ts'

const limit = 1_000_000
const team = { groups: ['team'] }
/** All of it is used up by one response. */
const money = subscription(
  'money',
  team,
  { 'llm/agent': [[limit, '1h']] },
  {
    ofModels: { billingRate: { perToken: '1' } },
  },
)
money.spec.limits = [{ name: 'all', per: 'user', of: 'cost', limit: '1', window: '8784h' }]
const model = await startAgentModel('cat word.txt', 'tangerine')
const test = gatewayTests({
  env: { METER_PATHS: 'chat,messages,responses' },
  resources: () => [
    ...['agent', 'shut'].map((name) => modelRef(name, { backendUrl: model.url, modelIds: [name] })),
    accessPolicy('open', ['llm/agent'], team),
    subscription('plenty', team, { 'llm/agent': [[limit, '1h']] }),
    subscription('day', team, { 'llm/agent': [[1, '24h']] }),
    // Enough for one of the two requests of the task.
    money,
    subscription('short', team, { 'llm/agent': [[100, '20s']] }),
  ],
})

const programs = join(import.meta.dirname, 'agents', 'node_modules', '.bin')
const env = {
  PATH: `${programs}:${process.env.PATH}`,
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
}

async function chat(gateway: Gateway, key: string): Promise<Headers> {
  return (await gateway.chat(key, {}, { model: 'agent' }, '/v1/chat/completions')).headers
}

for (const agent of agents) {
  test(`${agent.name} uses a tool, is counted, and says why it is refused`, async (t, gateway) => {
    installPackages('agents')
    if (!hasTool(join(programs, agent.program), '--version')) {
      return t.plan(0, `${agent.program} does not start: a package for this machine is missing`)
    }
    const { key } = await gateway.mint()
    const [day, short] = [
      await gateway.mint({ subscription: 'day' }),
      await gateway.mint({ subscription: 'short' }),
    ]
    const run = async (name: string, credential: string) => {
      const home = temporaryFolder(t, { 'word.txt': 'tangerine\n' })
      const settings = { gateway: gateway.url, key: credential, model: name, home }
      return runToEnd({ program: 'sh', args: ['-c', agent.script(settings)], env }, home)
    }

    const before = model.said()
    t.match(await run('agent', key), /The word is tangerine/)
    t.ok(model.said() - before >= 200, 'the request for a tool, and the answer')
    await poll(async () => {
      // A response says what was left when its request came.
      const said = model.said() - before
      return limit - Number((await chat(gateway, key)).get('x-ratelimit-remaining-tokens')) === said
    }, 'every token is counted')

    t.match(await run('agent', `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`), agent.bad)
    t.match(await run('shut', key), agent.shut)
    t.match(await run('agent', short.key), /The word is tangerine/, 'it waits 20 s and goes on')
    if (agent.day !== undefined) {
      await chat(gateway, day.key)
      const isSpent = async () => Number((await chat(gateway, day.key)).get('retry-after')) > 60
      await poll(isSpent, 'the limit of a day is used up')
      t.match(await run('agent', day.key), agent.day)
    }
    if (agent.budget === undefined) return
    const { key: paid } = await gateway.mint({ subscription: 'money' })
    await chat(gateway, paid)
    const left = async () => (await chat(gateway, paid)).get('x-tollgate-budget-remaining')
    await poll(async () => (await left()) === '0', 'the budget is used up')
    t.match(await run('agent', paid), agent.budget)
  })
}
