import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'tap'
import { createSupervisor } from '../../dev/supervisor.ts'
import { poll } from '../support/poll.ts'

/** A process that ends when it is told to. */
function createProcess(pid: number) {
  const { promise: exited, resolve: end } = Promise.withResolvers<string>()
  const stop = async () => end('stopped')
  return { pid, exited, end, kill: () => end('SIGKILL'), stop }
}

test('a part that has just ended gets no signal', async (t) => {
  const ended = spawn('true')
  await once(ended, 'exit')
  const supervisor = createSupervisor(() => {})
  // Its end has not been noticed yet.
  const spawnPart = async () => createProcess(ended.pid ?? 0)
  await supervisor.start({ name: 'the service', spawn: spawnPart, async ready() {} })
  t.doesNotThrow(() => supervisor.signal('the service', 'SIGUSR2'))
  await supervisor.stop()
})

test('a part that becomes ready late is back', async (t) => {
  const said: string[] = []
  const supervisor = createSupervisor((line) => void said.push(line))
  const processes: ReturnType<typeof createProcess>[] = []
  let asked = 0
  await supervisor.start({
    name: 'the service',
    async spawn() {
      const child = createProcess(process.pid)
      processes.push(child)
      return child
    },
    async ready() {
      asked += 1
      if (asked === 2) throw new Error('The service was not ready in 60 s.')
    },
  })
  processes[0]?.end('SIGKILL')
  await poll(() => said.includes('The service is back'), 'it is back', 20_000)
  t.strictSame(said.slice(0, 2), [
    'The service ended (SIGKILL); starting it again in 1 s',
    'The service was not ready in 60 s.',
  ])
  t.equal(processes.length, 2, 'it was not started again')
  await supervisor.stop()
})
