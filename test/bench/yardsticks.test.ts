import { fork } from 'node:child_process'
import { test } from 'tap'
import { allowed, checkPath } from '../../bench/yardsticks/answer.ts'
import { freePorts } from '../support/free-ports.ts'
import { connect } from '../support/grpc-client.ts'
import { poll } from '../support/poll.ts'

for (const file of ['raw.ts', 'own.ts', 'grpc-js.ts']) {
  test(`${file} answers every Check with the same allow`, async (t) => {
    const [port] = await freePorts(1)
    const source = new URL(`../../bench/yardsticks/${file}`, import.meta.url)
    const child = fork(source, [`127.0.0.1:${port}`], { execArgv: [] })
    t.teardown(() => child.kill('SIGKILL'))
    const { ask } = connect(t, `127.0.0.1:${port}`)
    const message = Buffer.alloc(300)
    await poll(async () => {
      try {
        return (await ask(checkPath, message)).equals(allowed)
      } catch {
        return false
      }
    }, 'the server responds')
    const answers = await Promise.all(Array.from({ length: 100 }, () => ask(checkPath, message)))
    t.ok(answers.every((answer) => answer.equals(allowed)))
  })
}
