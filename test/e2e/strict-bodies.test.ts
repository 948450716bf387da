import http from 'node:http'
import type { Test } from 'tap'
import { type Gateway, gatewayTests } from '../support/gateway.ts'
import { createRandom, type Random } from '../support/random.ts'
import { isStrictObject } from '../support/strict-json.ts'

const test = gatewayTests()
/** How many of each are sent: `npm run fuzz:bodies` sends more. Of fewer documents too few may be accepted by chance. */
const rounds = Number(process.env.ROUNDS ?? 1)
const documents = 2_000 * rounds
const numbersSent = 800 * rounds

const scalars = [
  ...['1', '-0', '0.5', '1e5', '1E-3', '12345', '-1.5e+10', '1e308', '1e309', '0', '-1'],
  ...['true', 'false', 'null', '""', '"a"', '"\\n"', '"\\u00e9"', '"é"', '"\\ud83d\\ude00"'],
  ...['"\u{1f600}"', '"x\\\\"', '"\\""', '"\\ud800"', '"\\/"'],
]
const names = [...'abcdefghij', 'x y', 'é', '\\u0061', '\\n', '', '\\ud83d\\ude00']
const blanks = ['', '', '', '', ' ', '\n', '\t ', '\r']
const strange = '{}[]",:\\0123456789.eE+-u \0\u00c3\u00ed\u00a0\u00f4\u0080tfn\ufeff'

function pick<Item>(random: Random, items: readonly Item[]): Item {
  return items[random.below(items.length)] as Item
}

function write(random: Random, depth = 0): string {
  const blank = () => pick(random, blanks)
  const kind = random.below(10)
  if (depth > 4 || kind < 3) return pick(random, scalars)
  const count = random.below(10) === 0 ? 14 : random.below(5)
  const items = Array.from({ length: count }, () => write(random, depth + 1))
  if (kind < 6) return `[${blank()}${items.join(`${blank()},${blank()}`)}${blank()}]`
  const members = items.map((item) => `"${pick(random, names)}"${blank()}:${blank()}${item}`)
  return `{${blank()}${members.join(`,${blank()}`)}${blank()}}`
}

function mutate(random: Random, text: string): Buffer {
  let bytes = Buffer.from(text)
  for (let times = random.below(4); times > 0; times -= 1) {
    const at = random.below(bytes.length)
    const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
    const kind = random.below(4)
    if (kind === 0) bytes = Buffer.concat([before, Buffer.of(random.below(256)), after.subarray(1)])
    else if (kind === 1) bytes = Buffer.concat([before, after.subarray(1)])
    else if (kind === 2) {
      const piece = Buffer.from(
        pick(random, [...strange]),
        random.below(2) === 0 ? 'latin1' : 'utf8',
      )
      bytes = Buffer.concat([before, piece, after])
    } else {
      const from = random.below(bytes.length)
      bytes = Buffer.concat([before, bytes.subarray(from, from + 8), after])
    }
  }
  return bytes
}

/** Returns a function that sends a body and returns the status. */
async function createSender(t: Test, gateway: Gateway): Promise<(body: Buffer) => Promise<number>> {
  const { key } = await gateway.mint()
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 })
  t.teardown(() => agent.destroy())
  return (body) =>
    new Promise((settle, fail) => {
      const headers = { authorization: `Bearer ${key}`, 'content-length': body.length }
      // The sample server responds to this path whatever the body contains.
      const path = '/llm/sim/v1/rerank'
      const request = http.request({ agent, port: gateway.port, path, method: 'POST', headers })
      request.on('error', fail)
      request.on('response', (response) => {
        response.resume().on('end', () => settle(response.statusCode ?? 0))
      })
      request.end(body)
    })
}

test('the gateway accepts the bodies that a strict parser accepts', async (t, gateway) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const send = await createSender(t, gateway)
  let taken = 0
  for (let done = 0; done < documents; done += 4) {
    const bodies = Array.from({ length: 4 }, () => mutate(random, `{"x":"y","z":${write(random)}}`))
    const statuses = await Promise.all(bodies.map(send))
    for (const [i, body] of bodies.entries()) {
      const strict = isStrictObject(body)
      if (strict) taken += 1
      if ((statuses[i] === 400) === strict)
        t.fail(`${statuses[i]} for ${JSON.stringify(body.toString('latin1'))}`)
    }
  }
  t.ok(taken > documents / 8 && taken < documents, `${taken} of ${documents} were accepted`)
})

/** The least number that parsers read as infinite, and the largest double. */
const [infinite, largest] = [2n ** 1024n - 2n ** 970n, 2n ** 1024n - 2n ** 971n]

/** A number in some spelling, usually near the ends of what a double can hold. */
function writeNumber(random: Random): string {
  const digits = (count: number) => Array.from({ length: count }, () => random.below(10)).join('')
  const edge = pick(random, [infinite, infinite - 1n, infinite + 1n, largest, largest + 1n])
  const few = String(edge).slice(0, pick(random, [1, 15, 17, 18, 20, 100, 308, 309]))
  const significant = pick(random, [
    few,
    few + digits(5),
    few + '0'.repeat(20),
    `1${digits(9)}`,
    `9${digits(310)}`,
    '0',
  ])
  const magnitude = pick(random, [
    ...[308, 308, 308, 308, 307, 309, 310, 0, 1, -1, 300, -323, -324, -325, -400],
    ...[10 ** 9, -(10 ** 9), 10 ** 15, -(10 ** 15)],
  ])
  const zeros = '0'.repeat(pick(random, [0, 0, 1, 300, 400]))
  const [mantissa, exponent] = pick(random, [
    [significant + zeros, magnitude - significant.length - zeros.length + 1],
    [`0.${zeros}${significant}`, magnitude + zeros.length + 1],
    [`${significant[0]}.${significant.slice(1)}${zeros}0`, magnitude],
  ])
  const padded = '0'.repeat(pick(random, [0, 0, 1, 10, 400])) + Math.abs(exponent)
  const sign = exponent < 0 ? '-' : pick(random, ['', '+'])
  const text =
    exponent === 0 && random.below(2) === 0 ? '' : pick(random, ['e', 'E']) + sign + padded
  return pick(random, ['', '-']) + mantissa.replace(/^0+(?=\d)/, '') + text
}

test('the gateway refuses the numbers that are infinite to a parser', async (t, gateway) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const send = await createSender(t, gateway)
  let finite = 0
  for (let done = 0; done < numbersSent; done += 4) {
    const numbers = Array.from({ length: 4 }, () => writeNumber(random))
    const forms = ['{"x":N}', '{"x":[1, N\n]}', '{"x": N ,"y":"z"}', '{"x":{"y":[N,N]}}']
    const statuses = await Promise.all(
      numbers.map((each) => send(Buffer.from(pick(random, forms).replaceAll('N', each)))),
    )
    for (const [i, number] of numbers.entries()) {
      const bounded = Number.isFinite(Number(number))
      if (bounded) finite += 1
      if ((statuses[i] === 400) === bounded) t.fail(`${statuses[i]} for ${number}`)
    }
  }
  t.ok(
    finite > numbersSent * 0.5 && finite < numbersSent * 0.9,
    `${finite} of ${numbersSent} are finite`,
  )
})

/** The number of bytes that the script reads at once. */
const window = 65_536

const nines = '9'.repeat(320)

/** Members whose validation needs more than one byte. */
const torn: readonly string[] = [
  '"a":1e309',
  '"a":[-1.5E+308,2]',
  `"a":0.${'0'.repeat(20)}1e31 ,"b":true`,
  `"a":${nines}`,
  `"a":${nines} ,"b":1`,
  `"a":[${nines}\n]`,
  `"a":${nines.slice(20)} ,"b":[] `,
  '"name":1, "name" :2',
  '"name":1,"nam\\u0065":2',
  '"name":1,"other name":"\\\\","x":{"name":1}',
  '"a":"\\ud83d\\ude00 \\n and \\" x"',
  '"a":"\\ud83d\\n"',
  '"a":"plain \u{1f600} wide \u00e9 \u4e2d plain text again"',
  '"Model":1',
]

test('the position of the window makes no difference', async (t, gateway) => {
  const send = await createSender(t, gateway)
  for (const member of torn) {
    const rest = Buffer.from(`",${member}}\n `)
    const step = Math.ceil(rest.length / 60)
    const bodies = Array.from({ length: Math.floor(rest.length / step) + 1 }, (_, i) =>
      Buffer.concat([Buffer.from('{"y":"'.padEnd(window - i * step, 'x')), rest]),
    )
    const refused = member.includes('Model') || !isStrictObject(bodies[0] as Buffer)
    for (let i = 0; i < bodies.length; i += 8) {
      const statuses = await Promise.all(bodies.slice(i, i + 8).map(send))
      for (const status of statuses) {
        if ((status === 400) !== refused) t.fail(`${status} for ${member}`)
      }
    }
  }
  const spaces = ' '.repeat(window + 3)
  const long = 'n'.repeat(2 * window)
  for (const [text, refused] of [
    [`${spaces}{${spaces}"a"${spaces}:${spaces}1${spaces}}${spaces}`, false],
    [`{"${long}":1,"${long}x":1}`, false],
    [`{"${long}":1,"${long}":1}`, true],
    [`{"a":1e${'0'.repeat(window)}308}`, false],
    [`{"a":1e${'0'.repeat(window)}309}`, true],
    [`{"a":1}${spaces}x`, true],
    [`${spaces}[]`, true],
    [spaces, true],
  ] as const) {
    t.equal((await send(Buffer.from(text))) === 400, refused, `${text.trim().slice(0, 10)}...`)
  }
})

test('names are compared by all their bytes', async (t, gateway) => {
  const send = await createSender(t, gateway)
  const isRefused = async (body: Buffer) => (await send(body)) === 400
  const object = (names: readonly string[]) =>
    Buffer.from(`{"x":{${names.map((name) => `"${name}":1`).join(',')}}}`)
  for (const length of [1, 7, 8, 9, 15, 16, 17, 24, 25, 255, 256, 257, 400, 900]) {
    const name = 'n'.repeat(length)
    const places = [0, length >> 1, length - 1]
    const others = places.map((at) => `${name.slice(0, at)}o${name.slice(at + 1)}`)
    t.ok(await isRefused(object([name, name])), `the same, of ${length} bytes`)
    t.notOk(await isRefused(object([name, ...new Set(others)])), `others, of ${length} bytes`)
    t.notOk(await isRefused(object([name, `${name}\\u0000`, `${name}n`])), `longer than ${length}`)
  }
})

/** Names of Thue-Morse blocks: many collide under polynomials modulo 2^32, whatever the base is. */
function collidingNames(count: number): readonly string[] {
  const bits = Array.from({ length: 16 }, (_, i) => (i.toString(2).split('1').length - 1) % 2)
  const blocks = [0, 1].map((flipped) => bits.map((bit) => 'ab'[bit ^ flipped]).join(''))
  return Array.from({ length: count }, (_, i) =>
    [...i.toString(2).padStart(15, '0')].map((bit) => blocks[Number(bit)]).join(''),
  )
}

test('names that collide under simple hashes are different', async (t, gateway) => {
  const send = await createSender(t, gateway)
  const isRefused = async (body: Buffer) => (await send(body)) === 400
  const members = collidingNames(2_000).map((name) => `"${name}":1`)
  t.notOk(await isRefused(Buffer.from(`{${members.join(',')}}`)))
  t.ok(await isRefused(Buffer.from(`{${[...members, members[0]].join(',')}}`)))
})
