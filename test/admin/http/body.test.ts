import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

/** Every endpoint that reads a body: a body that it accepts, and the status of its answer. */
const endpoints = [
  ['POST /v1/api-keys', '{"name":"k"}', 201],
  ['POST /v1/api-keys/search', '{}', 200],
  ['POST /v1/api-keys/bulk-revoke', '{}', 200],
  ['POST /internal/v1/api-keys/validate', '{"key":"x"}', 200],
] as const

/** Refuses unknown fields, because a misspelled `dryRun` would revoke. */
const strict = 'POST /v1/api-keys/bulk-revoke'

const asAlice = { as: 'alice' }

test('a body must be one JSON value in UTF-8', async (t) => {
  const api = await createKeyApi(t)
  for (const [route, good] of endpoints) {
    const bad: Readonly<Record<string, string | Buffer>> = {
      'a second value': `${good}{}`,
      'a stray byte after it': `${good}x`,
      'NUL after': `${good}\0`,
      'a comma after it': `${good},`,
      'a byte order mark': `\ufeff${good}`,
      'a byte order mark alone': '\ufeff',
      'a no-break space alone': '\u00a0',
      'UTF-16': Buffer.from(good, 'utf16le'),
      'UTF-16 with a byte order mark': Buffer.from(`\ufeff${good}`, 'utf16le'),
      'invalid UTF-8': Buffer.from(good.replace('}', ',"x":"\u00ff"}'), 'latin1'),
      'an overlong NUL': Buffer.concat([Buffer.from(good), Buffer.from([0xc0, 0x80])]),
      'single quotes': "{'username':'alice'}",
      'a comment': `${good}//`,
      NaN: '{"limit":NaN}',
      'half a body': good.slice(0, -1),
      'a raw NUL in a string': '{"name":"a\0"}',
      form: 'name=k&key=x',
      garbage: Buffer.from([0xff, 0xfe, 0xfd, 0x00]),
    }
    for (const [what, payload] of Object.entries(bad)) {
      const answer = await api.ask(route, { ...asAlice, payload })
      refused(t, answer, 400, 'invalid_body', `${route}: ${what}`)
    }
  }
})

test('white space around a body and unknown fields are accepted, where no field must be known', async (t) => {
  const api = await createKeyApi(t)
  for (const [route, good, status] of endpoints) {
    const more = good.replace(/\}$/, good === '{}' ? '' : ',')
    const fine = [
      ` \r\n\t${good}\r\n`,
      `${more}"constructor":{"prototype":1},"unknown":[{"a":[]}]}`,
      `${more}"__proto__":{"ephemeral":true,"username":"bob"}}`,
      `${more}"lone":"\\ud800","nul":"\\u0000","big":1e999,"huge":${'9'.repeat(400)}}`,
    ]
    for (const [index, payload] of fine.entries()) {
      const answer = await api.ask(route, { ...asAlice, payload })
      const expected = route === strict && index > 0 ? 400 : status
      t.equal(answer.statusCode, expected, `${route} ${payload.slice(0, 80)} ${answer.body}`)
    }
  }
})

test('deep nesting does no harm', async (t) => {
  const api = await createKeyApi(t)
  const deep = '['.repeat(100_000) + ']'.repeat(100_000)
  const objects = `${'{"filters":'.repeat(50_000)}1${'}'.repeat(50_000)}`
  for (const [route, good] of endpoints) {
    const ignored = good.replace(/\}$/, `${good === '{}' ? '' : ','}"unknown":${deep}}`)
    for (const payload of [ignored, deep, '['.repeat(500_000), objects]) {
      refused(t, await api.ask(route, { ...asAlice, payload }), 400, 'invalid_body', route)
    }
  }
})

test('the Content-Type is ignored', async (t) => {
  const api = await createKeyApi(t)
  const types = [
    'application/json; charset=utf-16',
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'nonsense',
    ';;;',
    '',
    'a/b/c',
    'application/json, text/html',
    'x'.repeat(5_000),
  ]
  for (const [route, good, status] of endpoints) {
    for (const type of types) {
      const headers = { 'content-type': type }
      const answer = await api.ask(route, { ...asAlice, payload: good, headers })
      t.equal(answer.statusCode, status, `${route} ${type}`)
    }
  }
  const headers = { 'content-type': ';;;' }
  refused(t, await api.ask('POST /v1/nowhere', { ...asAlice, headers, payload: '{}' }), 404)
})

test('a body may have one mebibyte, whatever its content', async (t) => {
  const api = await createKeyApi(t)
  for (const [route, good, status] of endpoints) {
    const full = good.padEnd(1_048_576)
    t.equal((await api.ask(route, { ...asAlice, payload: full })).statusCode, status, route)
    const over = await api.ask(route, { ...asAlice, payload: `${full} ` })
    refused(t, over, 413, 'body_too_large', route)
  }
})

test('a body may have 300 lists and objects', async (t) => {
  const api = await createKeyApi(t)
  const ask = (unknown: string) =>
    api.ask('POST /v1/api-keys', { ...asAlice, payload: `{"name":"k","unknown":${unknown}}` })
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  const lists = (count: number, each: string) =>
    `[${Array.from({ length: count }, () => each).join()}]`
  for (const [fits, over] of [
    [nested(299), nested(300)],
    [lists(298, '[]'), lists(299, '[]')],
    [lists(298, '{}'), lists(299, '{}')],
  ] as const) {
    t.equal((await ask(fits)).statusCode, 201)
    const refusal = await ask(over)
    refused(t, refusal, 400, 'invalid_body')
    t.match(refusal.json().error.message, /more than 300 lists and objects/)
  }
  t.equal((await ask(`"${'[{'.repeat(1_000)}"`)).statusCode, 201, 'not in text')
})

test('a body may have 300 names', async (t) => {
  const api = await createKeyApi(t)
  const named = (names: number) => Array.from({ length: names }, (_, n) => `"name ${n}":0`)
  for (const [route, good] of endpoints.filter(([route]) => route !== strict)) {
    const beside = good === '{}' ? 0 : 1
    const more = (names: readonly string[]) =>
      good.replace(/\}$/, `${beside === 0 ? '' : ','}"unknown":{${names.join(',')}}}`)
    const most = more(named(300 - beside - 1))
    t.match((await api.ask(route, { ...asAlice, payload: most })).statusCode, /20[01]/, route)
    const over = await api.ask(route, { ...asAlice, payload: more(named(300 - beside)) })
    refused(t, over, 400, 'invalid_body', route)
    t.match(over.json().error.message, /more than 300 fields/)
  }
  const objects = JSON.stringify({ unknown: named(301).map((name) => JSON.parse(`{${name}}`)) })
  const search = 'POST /v1/api-keys/search'
  refused(t, await api.ask(search, { ...asAlice, payload: objects }), 400, 'invalid_body')
  const quoted = JSON.stringify({ unknown: [objects, '\\', '":"'.repeat(2_000)] })
  const answer = await api.ask(search, { ...asAlice, payload: quoted })
  t.equal(answer.statusCode, 200, 'colons in text are not names')
})

test('huge numbers are accepted as numbers', async (t) => {
  const api = await createKeyApi(t)
  const digits = '9'.repeat(300)
  const ask = (payload: string) => api.ask('POST /v1/api-keys/search', { ...asAlice, payload })
  t.equal((await ask(`{"limit":${digits}}`)).statusCode, 200)
  t.equal((await ask(`{"offset":${digits}}`)).statusCode, 200)
  t.equal((await ask(`{"unknown":[${Array(6).fill(digits).join()}]}`)).statusCode, 200)
  const over = await ask(`{"unknown":[${Array(7).fill(`1.${digits}e-3`).join()}]}`)
  refused(t, over, 400, 'invalid_body')
  t.match(over.json().error.message, /more than 2,000 digits/)
  t.equal((await ask(`{"unknown":"${digits.repeat(9)}"}`)).statusCode, 200, 'not in text')
  t.equal((await ask('{"limit":50.0,"offset":-0}')).statusCode, 200)
  t.equal((await ask('{"limit":5e1}')).statusCode, 200)
  refused(t, await ask(`{"limit":-${digits}}`), 400)
  refused(t, await ask('{"limit":1e-300}'), 400)
})
