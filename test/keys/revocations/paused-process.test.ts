import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Test, test } from 'tap'
import { createPropagationWatch } from '../../../src/keys/revocations/propagation.ts'
import { createKeyDatabase, fillKeys } from '../../support/followers.ts'
import { poll } from '../../support/poll.ts'

const program = fileURLToPath(new URL('../../support/follower-process.ts', import.meta.url))

/** Starts the process; `ask` sends it a hash and returns its answer. */
async function startProcess(t: Test, url: string) {
  const child: ChildProcess = spawn(process.execPath, [program, url], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.teardown(() => void child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })[
    Symbol.asyncIterator
  ]()
  const next = async () => (await lines.next()).value
  t.equal(await next(), 'ready')
  return {
    signal: (name: NodeJS.Signals) => child.kill(name),
    send: (hash: string) => void child.stdin?.write(`${hash}\n`),
    next,
  }
}

test('a resumed process refuses a revoked key before anything else', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const child = await startProcess(t, url)
  const watch = createPropagationWatch({ pool: sql, id: randomUUID(), others: () => [] })
  await fillKeys(sql, 3)
  for (const hash of ['alice-1', 'alice-2', 'alice-3']) {
    child.send(hash)
    t.equal(await child.next(), `${hash} active`)
    child.signal('SIGSTOP')
    await sql`update api_keys set status = 'revoked' where key_hash = ${hash}`
    t.match(await watch.wait(), { state: 'pending', waitingFor: ['paused'] })
    // The hash waits there and is the first thing that the process reads.
    child.send(hash)
    await sleep(200)
    child.signal('SIGCONT')
    t.equal(await child.next(), `${hash} revoked`)
    await poll(async () => (await watch.wait()).state === 'confirmed', 'the process has caught up')
  }
})
