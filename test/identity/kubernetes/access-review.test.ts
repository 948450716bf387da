import { type Test, test } from 'tap'
import { createAccessReview } from '../../../src/identity/kubernetes/access-review.ts'
import { createReview } from '../../../src/identity/kubernetes/review.ts'
import { startReviewServer } from '../../support/review-server.ts'

const resource = {
  group: 'tollgate.dev',
  resource: 'accesspolicies',
  namespace: 'models-as-a-service',
}

async function createWorld(t: Test) {
  const server = await startReviewServer(t)
  const failures: string[] = []
  const answers: string[] = []
  let passed = 0
  const mayAdminister = createAccessReview({
    review: createReview({ server: server.url, tokenFile: server.tokenFile }, { timeoutMs: 200 }),
    resource,
    onReviewed(result, problem) {
      answers.push(result)
      if (problem !== undefined) failures.push(problem)
    },
    monotonic: () => passed,
  })
  return {
    server,
    failures,
    answers,
    ask: async (user: string, ...groups: readonly string[]) =>
      await mayAdminister({ user, groups }),
    pass(milliseconds: number) {
      passed += milliseconds
    },
  }
}

test('a user who may create access policies is an administrator', async (t) => {
  const { server, ask } = await createWorld(t)
  server.admins.add('ada').add('ops')
  t.equal(await ask('ada'), true)
  t.equal(await ask('bob', 'x', 'ops'), true)
  t.equal(await ask('bob', 'x'), false)
  t.strictSame(server.asked[1], {
    user: 'bob',
    groups: ['x', 'ops'],
    resourceAttributes: { ...resource, verb: 'create' },
  })
})

test('sets of groups are kept apart, in any order of reviews', async (t) => {
  for (const first of [true, false]) {
    const { server, ask } = await createWorld(t)
    server.admins.add('b')
    const asks: [boolean, () => Promise<boolean>][] = [
      [false, () => ask('eve', 'a,b')],
      [true, () => ask('eve', 'a', 'b')],
      [false, () => ask('eve', '["a","b"]')],
      [false, () => ask('eve","a', '')],
    ]
    for (const [expected, asking] of first ? asks : asks.reverse())
      t.equal(await asking(), expected)
    t.equal(server.asked.length, 4)
    t.equal(await ask('eve', 'b', 'a', 'a'), true)
    t.equal(server.asked.length, 4, 'order and repetition do not matter')
  }
})

test('a role that is taken away ends within 30 seconds', async (t) => {
  const { server, ask, pass } = await createWorld(t)
  server.admins.add('ada')
  t.equal(await ask('ada'), true)
  server.admins.delete('ada')
  pass(29_999)
  t.equal(await ask('ada'), true)
  pass(1)
  t.equal(await ask('ada'), false)
  server.admins.add('ada')
  t.equal(await ask('ada'), false, 'a no is cached too')
  server.answer = (_request, response) => response.writeHead(500).end()
  pass(30_000)
  t.equal(await ask('ada'), false)
})

test('any failure means no, and is reported', async (t) => {
  const { server, failures, answers: answered, ask, pass } = await createWorld(t)
  server.admins.add('ada')
  t.equal(await ask('ada'), true)
  const answers: (typeof server.answer)[] = [
    (_request, response) => response.writeHead(403).end('{}'),
    (_request, response) => response.writeHead(201).end('{}'),
    (_request, response) => response.writeHead(201).end('x'),
    () => {},
  ]
  for (const [index, answer] of answers.entries()) {
    server.answer = answer
    pass(30_000)
    t.equal(await ask('ada'), false, 'even for a recent administrator')
    t.equal(failures.length, index + 1)
  }
  t.strictSame(answered, ['allowed', 'failed', 'failed', 'failed', 'failed'])
  t.equal(await ask('ada'), false)
  t.equal(failures.length, answers.length, 'after several in a row asked once a second')
  t.match(failures[0], /our role may not create subjectaccessreviews/)
  server.answer = (_request, response) =>
    response.writeHead(201).end(JSON.stringify({ status: { allowed: true, denied: true } }))
  pass(1_000)
  t.equal(await ask('ada'), false, 'denied takes precedence over allowed')
  server.answer = (_request, response) =>
    response.writeHead(201).end(JSON.stringify({ status: { allowed: 'true' } }))
  t.equal(await ask('bob'), false)
})

test('one failure denies nobody else, and only once', async (t) => {
  const { server, ask } = await createWorld(t)
  server.admins.add('ada').add('ops')
  server.answer = (_request, response) => {
    server.answer = undefined
    response.writeHead(429).end('{}')
  }
  t.equal(await ask('ada'), false)
  t.equal(await ask('ops'), true)
  t.equal(await ask('ada'), true)
})

test('an API server that does not respond is waited for by one call at a time', async (t) => {
  const { server, ask, pass } = await createWorld(t)
  server.admins.add('ada').add('ops')
  server.answer = () => {}
  for (let i = 0; i < 3; i += 1) t.equal(await ask('ada'), false, 'it is waited for')
  pass(1_000)
  const trial = ask('ada')
  const since = performance.now()
  pass(1_000)
  t.strictSame([await ask('ada'), await ask('ada')], [false, false])
  t.ok(performance.now() - since < 150, `after ${performance.now() - since} ms`)
  t.equal(await trial, false)
  server.answer = undefined
  t.equal(await ask('ada'), false, 'paused')
  pass(1_000)
  t.equal(await ask('ada'), true)
})
