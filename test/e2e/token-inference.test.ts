import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import root from 'tap'
import { subscription } from '../support/documents.ts'
import { chatPath, type Gateway, gatewayTests, meter, models } from '../support/gateway.ts'
import { readScrape } from '../support/metrics.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const journal = join(temporaryFolder(root), 'journal', 'usage.jsonl')
const team = { groups: ['team'] }
const test = gatewayTests({
  env: { INFERENCE_WITH_IDENTITY_TOKENS: 'true', USAGE_JOURNAL: journal },
  resources: (backendUrl) => [
    ...models(backendUrl),
    subscription('hundred', team, { 'llm/sim': [[100, '1h']] }),
    subscription('other', team, { 'llm/sim': [[100, '1h']] }),
    subscription('foreign', { users: ['nobody'] }, { 'llm/sim': [[100, '1h']] }),
    subscription('only', team, { 'llm/other': [[100, '1h']] }),
    meter,
  ],
})

const sixty = { totalTokens: 60 }

/** Sends a chat call with an identity token, and with a subscription if given. */
function chat(
  gateway: Gateway,
  user: string,
  subscription?: string,
  {
    path = chatPath,
    sim = sixty,
    model = 'sim',
  }: { path?: string; sim?: object; model?: string } = {},
) {
  return gateway.ask(path, `token-${user}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(subscription !== undefined && { 'x-maas-subscription': subscription }),
    },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }], sim }),
  })
}

test('a token and a key of one user share a limit', async (t, gateway) => {
  const user = gateway.newUser()
  const first = await chat(gateway, user, 'hundred')
  t.equal(first.status, 200, first.text)
  t.equal(first.headers.get('x-ratelimit-limit-tokens'), '100')
  await gateway.settled()
  const { key } = await gateway.mint({ user, subscription: 'hundred' })
  t.equal((await gateway.chat(key, sixty)).status, 200, '40 tokens are left')
  await gateway.settled()
  t.equal((await chat(gateway, user, 'hundred')).status, 429, 'the token is refused')
  t.equal((await gateway.chat(key, sixty)).status, 429, 'the key is refused')
  t.equal((await chat(gateway, user, 'other')).status, 200, 'another subscription is allowed')
  t.equal(
    (await chat(gateway, gateway.newUser(), 'hundred')).status,
    200,
    'another user is allowed',
  )

  const { metrics } = gateway.addresses
  const labels = { user, subscription: 'hundred' }
  await poll(async () => {
    const answer = await fetch(`http://${metrics?.host}:${metrics?.port}/metrics`)
    const scrape = readScrape(await answer.text())
    return (
      scrape.value('authorized_calls_total', labels) === 2 &&
      scrape.value('authorized_hits_total', { ...labels, model: 'llm/sim' }) === 120
    )
  }, 'both are calls of the user')
  const lines = () => readFileSync(journal, 'utf8').split('\n')
  const noted = () => lines().filter((line) => line.includes(`"${user}"`)).length
  await poll(() => noted() === 3, 'both are in the journal')
  t.notMatch(lines().join(''), `token-${user}`, 'the token is not')
})

test('uses the named subscription, or the only one that fits', async (t, gateway) => {
  const user = gateway.newUser()
  const several = await chat(gateway, user)
  t.equal(several.status, 403)
  t.equal(several.headers.get('x-ext-auth-reason'), 'multiple_subscriptions')
  t.match(JSON.parse(several.text), { error: { message: /name one in x-maas-subscription/ } })
  const other = { path: '/llm/other/v1/chat/completions' }
  t.equal((await chat(gateway, user, undefined, other)).status, 200, 'only one fits')
  for (const name of ['foreign', 'none']) {
    const refused = await chat(gateway, user, name)
    t.equal(refused.status, 403, name)
    t.equal(refused.headers.get('x-ext-auth-reason'), 'access_denied', 'reveals no names')
  }
  t.equal((await chat(gateway, user, 'only')).status, 403, 'a subscription without the model')
  const shared = { path: '/v1/chat/completions', model: 'other' }
  t.equal((await chat(gateway, user, undefined, shared)).status, 200, 'the body may name the model')
  t.equal((await chat(gateway, 'guest', 'hundred')).status, 403, 'a user without groups')
})

test('refuses invalid tokens', async (t, gateway) => {
  const user = gateway.newUser()
  t.equal((await chat(gateway, 'nobody', 'hundred')).status, 401)
  const inKeyHeader = await gateway.ask(chatPath, undefined, {
    method: 'POST',
    headers: { 'x-api-key': `token-${user}`, 'x-maas-subscription': 'hundred' },
    body: '{"model":"sim","messages":[]}',
  })
  t.equal(inKeyHeader.status, 401)
  t.match(inKeyHeader.headers.get('www-authenticate'), /^Bearer error="invalid_token"/)
  const { key } = await gateway.mint({ user, subscription: 'hundred' })
  const two = await gateway.ask(chatPath, `token-${user}`, {
    method: 'POST',
    headers: { 'x-api-key': key },
    body: '{"model":"sim","messages":[]}',
  })
  t.equal(two.status, 401, 'two credentials')
})
