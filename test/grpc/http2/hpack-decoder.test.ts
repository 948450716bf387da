import { once } from 'node:events'
import http2 from 'node:http2'
import { type AddressInfo, createServer } from 'node:net'
import { type Test, test } from 'tap'
import { ConnectionError, frameType, preface } from '../../../src/grpc/http2/frames.ts'
import { HpackDecoder } from '../../../src/grpc/http2/hpack-decoder.ts'
import type { Field } from '../../../src/grpc/http2/request-head.ts'
import { frame, framesOf } from '../../support/http2-frames.ts'
import { poll } from '../../support/poll.ts'
import { createRandom } from '../../support/random.ts'

function decode(decoder: HpackDecoder, block: Buffer): [string, string][] {
  const fields: [string, string][] = []
  decoder.decode(block, 0, block.length, {
    add: ({ name, value }: Field) => void fields.push([name, value]),
  })
  return fields
}

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(/\s/g, ''), 'hex')

const responses = [
  [
    [':status', '302'],
    ['cache-control', 'private'],
    ['date', 'Mon, 21 Oct 2013 20:13:21 GMT'],
    ['location', 'https://www.example.com'],
  ],
  [
    [':status', '307'],
    ['cache-control', 'private'],
    ['date', 'Mon, 21 Oct 2013 20:13:21 GMT'],
    ['location', 'https://www.example.com'],
  ],
  [
    [':status', '200'],
    ['cache-control', 'private'],
    ['date', 'Mon, 21 Oct 2013 20:13:22 GMT'],
    ['location', 'https://www.example.com'],
    ['content-encoding', 'gzip'],
    ['set-cookie', 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1'],
  ],
]
const first = [
  [':method', 'GET'],
  [':scheme', 'http'],
  [':path', '/'],
  [':authority', 'www.example.com'],
]
const requests = [
  first,
  [...first, ['cache-control', 'no-cache']],
  [
    [':method', 'GET'],
    [':scheme', 'https'],
    [':path', '/index.html'],
    [':authority', 'www.example.com'],
    ['custom-key', 'custom-value'],
  ],
]

/** RFC 7541, appendix C: the blocks that one decoder reads in sequence, and their fields. */
const vectors: Readonly<Record<string, readonly [blocks: readonly string[], said: unknown]>> = {
  'C.2.1': [
    ['400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572'],
    [[['custom-key', 'custom-header']]],
  ],
  'C.2.2': [['040c 2f73 616d 706c 652f 7061 7468'], [[[':path', '/sample/path']]]],
  'C.2.3': [['1008 7061 7373 776f 7264 0673 6563 7265 74'], [[['password', 'secret']]]],
  'C.2.4': [['82'], [[[':method', 'GET']]]],
  'C.3': [
    [
      '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
      '8286 84be 5808 6e6f 2d63 6163 6865',
      '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65',
    ],
    requests,
  ],
  'C.4': [
    [
      '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
      '8286 84be 5886 a8eb 1064 9cbf',
      '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
    ],
    requests,
  ],
  // With a table of 256 bytes, which is set first.
  'C.5': [
    [
      `3fe101 4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230
       3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
       6c65 2e63 6f6d`,
      '4803 3330 37c1 c0bf',
      `88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0
       5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851
       5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31`,
    ],
    responses,
  ],
  'C.6': [
    [
      `3fe101 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0
       82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3`,
      '4883 640e ffc1 c0bf',
      `88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad
       94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160
       65c0 03ed 4ee5 b106 3d50 07`,
    ],
    responses,
  ],
}

test('decodes the examples of RFC 7541', async (t) => {
  for (const [name, [blocks, said]] of Object.entries(vectors)) {
    const decoder = new HpackDecoder()
    t.strictSame(
      blocks.map((block) => decode(decoder, hex(block))),
      said,
      name,
    )
  }
})

const bad: Readonly<Record<string, string>> = {
  'index 0': '80',
  'an index beyond the tables': 'be',
  'a name index beyond the tables': '7f 00 01 61',
  'a truncated integer': 'ff',
  'an integer without end': 'ff ff ff ff ff ff 7f',
  'a truncated name': '00 05 61',
  'a missing value': '00 01 61',
  'a truncated value': '00 01 61 02 62',
  'padding with zeros': '00 01 61 81 18',
  'a whole byte of padding': '00 01 61 82 1f ff',
  'EOS in a string': '00 01 61 84 ff ff ff ff',
  'a table larger than agreed': '3f e2 1f',
  'a table size within a block': '82 20',
}

test('an invalid block closes the connection', async (t) => {
  for (const [name, block] of Object.entries(bad)) {
    t.throws(() => decode(new HpackDecoder(), hex(block)), { code: 9 }, name)
  }
})

test('accepts the largest agreed table', async (t) => {
  t.strictSame(decode(new HpackDecoder(), hex('3f e1 1f 82')), [[':method', 'GET']])
})

test('a field larger than the table clears it', async (t) => {
  const decoder = new HpackDecoder()
  decode(decoder, hex('40 01 61 01 62'))
  t.strictSame(decode(decoder, hex('be')), [['a', 'b']])
  const large = Buffer.concat([hex('40 01 63 7f 81 1f'), Buffer.alloc(127 + 0xf81, 'x')])
  t.equal(decode(decoder, large).length, 1)
  t.throws(() => decode(decoder, hex('be')), { code: 9 })
})

test('random blocks are decoded or rejected', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const seeds = Object.values(vectors).flatMap(([blocks]) => blocks.map(hex))
  for (let i = 0; i < 20_000; i += 1) {
    const block = Buffer.from(seeds[random.below(seeds.length)] as Buffer)
    for (let n = random.below(4); n >= 0; n -= 1)
      block[random.below(block.length)] = random.below(256)
    const decoder = new HpackDecoder()
    try {
      for (const { length } of decode(decoder, block.subarray(0, 1 + random.below(block.length)))) {
        if (length !== 2) t.fail('a field has a name and a value')
      }
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error
    }
  }
})

test("decodes the blocks of Node's encoder", async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const { blocks, session } = await catchBlocks(t)
  const sent: [string, string][][] = []
  const pick = (texts: readonly string[]): string => texts[random.below(texts.length)] as string
  const text = (length: number, from: string): string =>
    Array.from({ length }, () => from[random.below(from.length)]).join('')
  const letters = 'abcdefghijklmnopqrstuvwxyz0123456789-_'
  const visible = Array.from({ length: 0x5e }, (_, i) => String.fromCharCode(0x21 + i)).join('')
  const repeated = Array.from({ length: 40 }, () => text(1 + random.below(60), visible))
  for (let i = 0; i < 400; i += 1) {
    const fields: [string, string][] = [
      [':method', pick(['GET', 'POST', 'PATCH'])],
      [':path', `/${text(random.below(80), letters)}`],
      [':scheme', 'http'],
      [':authority', 'example.com'],
    ]
    for (let n = random.below(12); n > 0; n -= 1) {
      const value = random.below(2) ? pick(repeated) : text(random.below(300), `${visible}  é`)
      fields.push([`x-${text(1 + random.below(6), letters)}-${n}`, value.trim()])
    }
    sent.push(fields)
    session.request(Object.fromEntries(fields), { endStream: true }).on('error', () => {})
    if (i % 50 === 49) await poll(() => blocks.length === sent.length, 'all requests have arrived')
  }
  const decoder = new HpackDecoder()
  for (const [i, block] of blocks.entries()) {
    const sorted = (fields: [string, string][]) => fields.map((each) => each.join(': ')).sort()
    const fields = decode(decoder, block)
    if (sorted(fields).join('\n') !== sorted(sent[i] as [string, string][]).join('\n')) {
      t.strictSame(sorted(fields), sorted(sent[i] as [string, string][]), `request ${i}`)
    }
  }
  t.equal(blocks.length, 400)
})

/** Collects the header blocks of Node's client, without responding. */
async function catchBlocks(t: Test) {
  const blocks: Buffer[] = []
  const server = createServer((socket) => {
    let received = Buffer.alloc(0)
    socket.on('error', () => {})
    socket.write(frame('settings', 0))
    socket.on('data', (data) => {
      received = Buffer.concat([received, data])
      blocks.length = 0
      for (const { type, flags, payload } of framesOf(received.subarray(preface.length))) {
        if (type !== frameType.headers && type !== frameType.continuation) continue
        const from = (flags & 32) === 0 || type !== frameType.headers ? 0 : 5
        const part = payload.subarray(from)
        if (type === frameType.headers) blocks.push(part)
        else blocks.push(Buffer.concat([blocks.pop() as Buffer, part]))
      }
    })
    t.teardown(() => socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const session = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  session.on('error', () => {})
  t.teardown(() => session.destroy())
  return { blocks, session }
}
