import { gatewayTests } from '../support/gateway.ts'

/** Each response says how many pieces of code LuaJIT had made until then. */
const test = gatewayTests({
  adjustEnvoy(text) {
    const begins = 'function envoy_on_response(handle)\\n'
    if (!text.includes(begins)) throw new Error('no script reads responses')
    const counts = String.raw`local compiled = 0\njit.attach(function(what) if what == 'stop' then compiled = compiled + 1 end end, 'trace')\n`
    const tells = String.raw`handle:headers():replace('x-compiled', tostring(compiled))\n`
    return text.replaceAll(begins, () => counts + begins + tells)
  },
})

test('responses that are alike are not compiled anew', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const stream of [false, true]) {
    const compiled: number[] = []
    for (let i = 0; i < 600; i += 1) {
      const { status, headers } = await gateway.chat(key, {}, { stream })
      if (status !== 200) t.equal(status, 200)
      compiled.push(Number(headers.get('x-compiled')))
    }
    const more = (compiled.at(-1) as number) - (compiled[300] as number)
    t.ok(more < 20, `${more} for 300 with stream ${stream}`)
  }
})
