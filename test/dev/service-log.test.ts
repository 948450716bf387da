import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { createServiceLog } from '../../dev/service-log.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a warning is a line of text on the terminal and JSON in the file', async (t) => {
  const file = join(temporaryFolder(t), 'service.log')
  const shown: string[] = []
  const log = createServiceLog(file, (line) => void shown.push(line))
  const common = { time: 1, pid: 2, hostname: 'here' }
  const error = { type: 'Error', message: 'no route', stack: 'Error: no route\n  at x' }
  const lines = [
    JSON.stringify({ level: 30, ...common, msg: 'ready' }),
    JSON.stringify({ level: 40, ...common, path: '/v1/messages', msg: 'not counted' }),
    JSON.stringify({ level: 50, ...common, err: error, count: 3, msg: 'failed' }),
    JSON.stringify({ level: 40, ...common, path: '\u001b[2Jx\ny', msg: 'a\u0007b' }),
    JSON.stringify({ level: 40, ...common, msg: 'long', body: 'x'.repeat(5_000) }),
    'node: bad option',
    '{"level":"?"}',
  ]
  for (const line of lines) log.write(line)
  t.strictSame(shown, [
    'Warning: not counted (path: /v1/messages)',
    'Error: failed (err: no route, count: 3)',
    'Warning: a b (path: [2Jx y)',
    `Warning: long (body: ${'x'.repeat(300)}…)`,
    'service: node: bad option',
  ])
  const text = `${lines.join('\n')}\n`
  await poll(() => readFileSync(file, 'utf8') === text, 'the file has every line as it was')
  log.write(lines[2] ?? '')
  t.equal(log.lastLine(), `Error: failed (err: no route, count: 3) (${file})`)
  for (const code of ['draining', 'stopped']) log.write(JSON.stringify({ level: 30, code }))
  t.match(log.lastLine(), 'Error: failed', 'which explains the end, unlike what is logged at each')
})
