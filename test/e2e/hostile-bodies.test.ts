import { gzipSync } from 'node:zlib'
import { chatPath, gatewayTests, models, subscriptions } from '../support/gateway.ts'
import { neverFree } from '../support/never-free.ts'

const test = gatewayTests({
  resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ one: 1 })],
})

const paths = [chatPath, '/v1/chat/completions']
/** Makes the model ignore the case of names, as servers written in Go do. */
const foldKeys = 'x-sim: {"foldKeys":true}'
const namesNone = 'The body must be a JSON object whose "model" names a model.'
const whole = '{"model":"sim","messages":[],"stream":true}'

/** Members besides "model" and "messages" that parsers read differently. */
const members: readonly string[] = [
  '"stream":false,"stream":true',
  '"stream":true,"stream":true',
  '"model":"sim-large"',
  '"n":1,"n":2,"stream":true',
  '"x":{"n":1,"n":2},"stream":true',
  '"x":[{"y":{"n":1,"n":2}}],"stream":true',
  '"stream":false,"\\u0073tream":true',
  '"stream":true,"stream_options":{},"stream_options":{}',
  '"stream":true,"stream_options":{"include_usage":true,"include_usage":false}',
  '"Stream":true',
  '"stream":false,"STREAM":true',
  '"\\u0073tream":true',
  '"\\u017ftream":true',
  '"\u017ftream":true',
  '"\\u0053TREAM":true',
  '"stream\\u0000":true',
  '"stream\\u0000x":true',
  '"Model":"sim-large"',
  '"stream":true,"Stream_Options":{"include_usage":false}',
  '"stream":true,"\u017ftream_option\u017f":{}',
  '"stream":true,"stream_options":{"include_usage":true,"Include_Usage":false}',
  '"stream":true,"stream_options":{"include_usage":true,"include_u\\u017fage":false}',
  '"stream":true,"stream_options":{"\\u0130nclude_usage":false}',
  '"s_tream":true',
  '"-stream":true',
  `"stream${'_'.repeat(60_000)}":true`,
  '"Mo-del":"sim-large"',
  '"stream":true,"stream-options":{"include_usage":false}',
  '"stream":true,"stream_options":{"include-usage":false}',
  '"stream":true,"stream_options":{"include_usage":true,"Include__Usage":false}',
  '"stream":1',
  '"stream":0',
  '"stream":"true"',
  '"stream":{}',
  '"stream":[]',
  '"stream":True',
  '"stream":TRUE',
  '"stream":true,"stream_options":[]',
  '"stream":true,"stream_options":"x"',
  '"stream":true,"stream_options":true',
  '"stream":true,"stream_options":{"include_usage":1}',
  '"stream":true,"stream_options":{"include_usage":"true"}',
  '"x":NaN,"stream":true',
  '"x":Infinity,"stream":true',
  '"x":-Infinity,"stream":true',
  '"x":1e999,"stream":true',
  '"x":01,"stream":true',
  '"x":+1,"stream":true',
  '"x":.5,"stream":true',
  '"x":0x10,"stream":true',
  '"x":"\\ud800","stream":true',
  '"x":"\\udc00","stream":true',
  '"x":"\\q","stream":true',
  '"x":undefined,"stream":true',
  '"x":`y`,"stream":true',
  `"x":'"',"stream":true,"y":'"'`,
  `"x":{'a"':1},"stream":true`,
  'stream:true',
  "'stream':true",
  '"stream":true,',
  '/*x*/"stream":true',
  '"x":[/*"*/1],"stream":true',
  '"x":[1 #\n],"stream":true',
  '"a":1 "stream":true',
  `"x":${'['.repeat(100)}${']'.repeat(100)},"stream":true`,
  `"x":${'{"x":'.repeat(100)}1${'}'.repeat(100)},"stream":true`,
  `"x":${'['.repeat(100_000)}${']'.repeat(100_000)},"stream":true`,
]

test('refuses bodies that parsers read differently', async (t, gateway) => {
  for (const member of members) {
    const body = `{"model":"sim","messages":[],${member}}`
    for (const path of paths) {
      const title = `${member.slice(0, 80)} at ${path}`
      await neverFree(t, gateway, 400, { path, headers: [foldKeys], body }, title)
    }
  }
})

const latin1 = (text: string) => Buffer.from(text, 'latin1')
const bodies: Readonly<Record<string, string | Buffer>> = {
  'bytes that are not UTF-8': latin1('{"model":"sim","messages":[],"x":"\xff","stream":true}'),
  'a name that is not UTF-8': latin1('{"model":"sim","messages":[],"stre\xffam":true}'),
  'an overlong letter': latin1('{"model":"sim","messages":[],"\xc1\xb3tream":true}'),
  'an encoded surrogate': latin1('{"model":"sim","messages":[],"x":"\xed\xa0\x80","stream":true}'),
  'a byte-order mark': `\ufeff${whole}`,
  'UTF-16': Buffer.from(whole, 'utf16le'),
  'UTF-16 with a mark': Buffer.from(`\ufeff${whole}`, 'utf16le'),
  'an array': `[${whole}]`,
  null: 'null',
  'a string': JSON.stringify(whole),
  'a number': '5',
  nothing: '',
  'a blank': ' ',
  'a form': 'model=sim&stream=true&messages=x',
  'two objects': whole + whole,
  'two lines': `${whole}\n${whole}`,
  'a letter after it': `${whole}x`,
  'a NUL after it': `${whole}\0`,
  'a comment after it': `${whole}//`,
  'a missing end': whole.slice(0, -1),
  'a leading comma': whole.replace('{', '{,'),
  'a no-break space': whole.replace(',', ',\u00a0'),
  'a form feed': whole.replace(',', ',\f'),
  'single quotes': whole.replaceAll('"', "'"),
}

test('refuses bodies that are not a JSON object', async (t, gateway) => {
  for (const [title, body] of Object.entries(bodies)) {
    for (const path of paths) {
      await neverFree(t, gateway, 400, { path, headers: [foldKeys], body }, `${title} at ${path}`)
    }
  }
})

test('refuses encoded bodies', async (t, gateway) => {
  for (const path of paths) {
    for (const encoding of ['gzip', 'identity', 'br', 'x']) {
      const headers = [`content-encoding: ${encoding}`]
      const body = encoding === 'gzip' ? gzipSync(whole) : whole
      await neverFree(t, gateway, 400, { path, headers, body }, `${encoding} at ${path}`)
    }
    for (const charset of ['utf-16', '"utf-7"', 'utf-32', ' iso-8859-1']) {
      const headers = [`content-type: application/json; charset=${charset}`]
      await neverFree(t, gateway, 400, { path, headers, body: whole }, `${charset} at ${path}`)
    }
    const { key } = await gateway.mint({ subscription: 'one' })
    const headers = { 'content-encoding': 'gzip' }
    const asked = { method: 'POST', headers, body: new Uint8Array(gzipSync(whole)) }
    const { text } = await gateway.ask(path, key, asked)
    t.match(JSON.parse(text).error.message, /a content-encoding is not accepted/)
  }
})

test('counts bodies of any content type', async (t, gateway) => {
  for (const path of paths) {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'Application/JSON',
      'application/json; charset=UTF-8',
      'application/octet-stream',
      '',
    ]) {
      const headers = type === '' ? [] : [`content-type: ${type}`]
      await neverFree(t, gateway, 200, { path, headers, body: whole }, `${type} at ${path}`)
    }
  }
})

test('model names cannot inject headers', async (t, gateway) => {
  const before = await gateway.model.tally()
  for (const model of [
    'sim\n',
    'sim\r\nx-tollgate-cluster: model_llm_sim',
    'sim\0',
    ' sim ',
    'SIM',
    'llm/sim',
    '../llm/sim',
    '%REQ(authorization)%',
    's\u00efm',
    'x'.repeat(70_000),
    '__proto__',
  ]) {
    const { key } = await gateway.mint({ subscription: 'one' })
    const { status, text } = await gateway.chat(key, {}, { model }, '/v1/chat/completions')
    t.equal(status, 403, JSON.stringify(model.slice(0, 40)))
    t.equal(JSON.parse(text).error.code, 'model_not_allowed')
  }
  const { key } = await gateway.mint({ subscription: 'one' })
  for (const model of [5, null, '', true, [], ['sim'], { sim: 1 }, undefined]) {
    for (const path of ['/v1/chat/completions', '/v1/messages']) {
      const { status, text } = await gateway.chat(key, {}, { model }, path)
      t.equal(status, 400, JSON.stringify(model))
      t.equal(JSON.parse(text).error.message, namesNone, JSON.stringify(model))
    }
  }
  t.strictSame(await gateway.model.tally(), before, 'the model gets no request')
})
