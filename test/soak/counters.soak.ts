import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { accessLogMessage, structOf } from '../support/envoy-messages.ts'
import { connect } from '../support/grpc-client.ts'
import { createRandom } from '../support/random.ts'
import { redisKey } from '../support/redis-world.ts'
import { type RunningValkey, skipValkey, startValkey } from '../support/valkey.ts'

const logs = '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs'
const processes = 4
const connections = 64
const responses = 20_000
const users = 200
const day = 86_400_000
/** An addition that is older than this when a process is killed has been flushed. */
const maxFlushMs = 1_000

/** The access-log message of one response, as Envoy sends it. */
function messageOf(user: number, tokens: number): Buffer {
  const check = { user: `user-${user}`, subscription: 'basic', model: 'llm/small', metered: true }
  const metadata = {
    'envoy.filters.http.ext_authz': structOf(check),
    'tollgate.usage': structOf({ total_tokens: tokens }),
  }
  const entry = {
    common_properties: { metadata: { filter_metadata: metadata } },
    response: { response_code: { value: 200 } },
  }
  return accessLogMessage.encode({ http_logs: { log_entry: [entry] } })
}

interface Service {
  readonly child: ChildProcess
  readonly port: number
}

async function startService(t: Test, url: string): Promise<Service> {
  const child = fork(new URL('./usage-process.ts', import.meta.url), [url])
  t.teardown(() => child.kill('SIGKILL'))
  const [{ port }] = (await once(child, 'message')) as [{ port: number }]
  return { child, port }
}

interface Sent {
  readonly at: number
  readonly service: number
  readonly user: number
  readonly tokens: number
}

/** Sends all responses on 64 connections; calls `midway` once when half of them are sent. */
async function sendAll(
  t: Test,
  services: readonly Service[],
  midway: () => Promise<void>,
): Promise<readonly Sent[]> {
  const random = createRandom()
  t.comment(`seed ${random.seed}`)
  const sent: Sent[] = []
  let happening: Promise<void> | undefined
  const lines = services.flatMap(({ port }, service) =>
    Array.from({ length: connections / processes }, () => ({
      service,
      ...connect(t, `127.0.0.1:${port}`).send(logs),
    })),
  )
  for (const { stream } of lines) stream.on('error', () => {})
  for (let i = 0; i < responses; i += 1) {
    if (i === responses / 2) happening = midway()
    const line = lines[i % lines.length] as (typeof lines)[number]
    const [user, tokens] = [random.below(users), 1 + random.below(5_000)]
    sent.push({ at: performance.now(), service: line.service, user, tokens })
    line.stream.write(messageOf(user, tokens))
    if (i % 100 === 99) await delay(20)
  }
  await happening
  for (const { stream } of lines) stream.end()
  await Promise.all(lines.map(({ ended }) => ended.catch(() => {})))
  return sent
}

function sumsOf(sent: readonly Sent[]): number[] {
  const sums = Array.from({ length: users }, () => 0)
  for (const { user, tokens } of sent) sums[user] = (sums[user] as number) + tokens
  return sums
}

async function sumsIn({ client }: RunningValkey): Promise<number[]> {
  const keys = Array.from({ length: users }, (_, user) =>
    redisKey({ key: `basic\nllm/small\n${day}\nuser-${user}`, windowMs: day }),
  )
  return (await client.mget(keys)).map(Number)
}

/** Stops the running processes; returns how many counters they had to abandon. */
async function stopAll(services: readonly Service[]): Promise<number> {
  const lost = await Promise.all(
    services.map(async ({ child }) => {
      if (child.exitCode !== null || child.signalCode !== null) return 0
      child.send('stop')
      const [answer] = (await once(child, 'message')) as [{ lost: number }]
      return answer.lost
    }),
  )
  return lost.reduce((sum, each) => sum + each, 0)
}

async function restart(valkey: RunningValkey): Promise<void> {
  await valkey.kill()
  await delay(1_500)
  await valkey.start()
}

const onDisk = ['--appendonly', 'yes', '--appendfsync', 'always']

t.test('four processes and a restarted Redis count exactly', { skip: skipValkey }, async (t) => {
  const valkey = await startValkey(t, onDisk)
  const services = await Promise.all(
    Array.from({ length: processes }, () => startService(t, valkey.url)),
  )
  const sent = await sendAll(t, services, () => restart(valkey))
  t.equal(await stopAll(services), 0, 'nothing was abandoned')
  const expected = sumsOf(sent)
  t.strictSame(await sumsIn(valkey), expected)
  const total = expected.reduce((sum, each) => sum + each, 0)
  t.comment(`${sent.length} responses, ${total} tokens, each of ${users} sums exact`)
})

t.test('a killed process loses only its last second', { skip: skipValkey }, async (t) => {
  const valkey = await startValkey(t, onDisk)
  const services = await Promise.all(
    Array.from({ length: processes }, () => startService(t, valkey.url)),
  )
  const victim = 2
  let killedAt = Number.POSITIVE_INFINITY
  const sent = await sendAll(t, services, async () => {
    services[victim]?.child.kill('SIGKILL')
    killedAt = performance.now()
    await restart(valkey)
  })
  t.equal(await stopAll(services), 0)
  const most = sumsOf(sent)
  const least = sumsOf(
    sent.filter(({ service, at }) => service !== victim || at < killedAt - maxFlushMs),
  )
  const stored = await sumsIn(valkey)
  for (const [user, sum] of stored.entries()) {
    t.ok(sum <= (most[user] as number), `user ${user}: nothing counted twice`)
    t.ok(sum >= (least[user] as number), `user ${user}: nothing else lost`)
  }
  const total = (sums: readonly number[]): number => sums.reduce((sum, each) => sum + each, 0)
  const beforeKill = sumsOf(sent.filter(({ service, at }) => service !== victim || at < killedAt))
  t.comment(`not counted of what came before the kill: ${total(beforeKill) - total(stored)} tokens`)
})
