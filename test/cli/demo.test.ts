import { test } from 'tap'
import { runAt } from '../support/command.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ownSettings, runTollgate } from '../support/tollgate.ts'

const skip = envoyPath() === undefined && 'no Envoy'

const run = (url: string, ...args: readonly string[]) =>
  runAt({ env: { TOLLGATE_URL: url } }, 'demo', ...args)

test('the sample has keys and traffic to look at', { skip }, async (t) => {
  const settings = await ownSettings(temporaryFolder(t))
  const url = `http://${settings.GATEWAY_ADDRESS}`
  const up = runTollgate(t, ['up'], settings)
  await up.until('Ctrl-C stops everything.')
  t.match(up.output(), `${url}/console`)
  t.match(up.output(), /carol-token/)
  for (let round = 1; round <= 2; round += 1) {
    const { status, out } = await run(url, '--requests', '72')
    t.equal(status, 0)
    t.match(out, /^200 +\d+$/m)
    t.match(out, /^403 +\d+$/m)
    t.match(out, /^429 +\d+$/m)
    t.match(out, `6 keys, and what they have done: ${url}/console`)
    const sent = [...out.matchAll(/^\d{3} +(\d+)$/gm)].reduce((sum, [, n]) => sum + Number(n), 0)
    t.equal(sent, 72, 'as many requests as were asked for')
    const found = await fetch(`${url}/v1/api-keys/search`, {
      method: 'POST',
      headers: { authorization: 'Bearer admin-token' },
      body: '{"filters":{"status":["active"],"labelsContain":{"made":"tollgate-demo"}}}',
    })
    const { data } = (await found.json()) as { readonly data: readonly unknown[] }
    t.equal(data.length, 6, 'a second demo leaves no more keys')
  }
})

test('a demo is for this machine only, and bounded', async (t) => {
  t.match(await run('http://gateway.example'), {
    status: 1,
    err: /gateway\.example is not on this machine/,
  })
  for (const number of ['0', '10001', '-1', 'many']) {
    t.match(await run('', '--requests', number), { status: 2, err: /from 1 to 10,000/ })
  }
})
