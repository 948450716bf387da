import { test } from 'tap'
import { type AddressRules, createAddressRules } from '../../src/gateway/model-address.ts'

const listeners = [
  { setting: 'INTERNAL_ADDRESS', host: '127.0.0.1', port: 8081 },
  { setting: 'GATEWAY_ADDRESS', host: '0.0.0.0', port: 8000 },
  { setting: 'API_ADDRESS', host: '10.0.0.5', port: 8080 },
  { setting: 'GATEWAY_URL', host: 'models.example', port: 443 },
]
const judgeBy = (rules: Partial<AddressRules> = {}) =>
  createAddressRules({ listeners, allowed: [], opensLoopback: true, ...rules })

test('our own listeners are refused by any spelling', async (t) => {
  const judge = judgeBy({ allowed: ['loopback', 'models.example', '10.0.0.0/8'] })
  for (const host of [
    'localhost',
    'LOCALHOST.',
    'a.localhost',
    '127.0.0.1',
    '127.1',
    '127.0.0.1.',
    '0.0.0.0',
    '0',
    '2130706433',
    '017700000001',
    '0x7f.1',
    '１２７.0.0.1',
    '[::1]',
    '[::]',
    '[0:0::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::127.0.0.1]',
    '[64:ff9b:1::127.0.0.1]',
    '[64:ff9b:1:5:6:7:127.0.0.1]',
    '[64:ff9b:1:7f00:0:100::]',
    '[64:ff9b:1:207f:0:1::]',
    '[64:ff9b:1:2:7f:0:100:0]',
    '[64:ff9b:1:2:7f:0:1ff:1]',
    '[2002:7f00:1::5]',
    '[::ffff:0:127.0.0.1]',
  ]) {
    t.match(judge(`http://${host}:8081/internal`), /INTERNAL_ADDRESS/, host)
    t.match(judge(`http://${host}:8000`), /GATEWAY_ADDRESS/, host)
  }
  t.match(judge('http://127.7.7.7:8000'), /GATEWAY_ADDRESS/, 'it listens on every address')
  t.match(judge('http://10.0.0.5:8080'), /API_ADDRESS/)
  t.match(judge('https://models.example/llm/a'), /GATEWAY_URL/)
})

test('other servers on this machine are open to files only', async (t) => {
  for (const url of ['http://127.0.0.1:9000', 'http://localhost:9000', 'http://[::1]:9000']) {
    t.equal(judgeBy()(url), undefined, url)
    const cluster = { opensLoopback: false }
    t.match(judgeBy(cluster)(url), /own machine.*MODEL_ADDRESSES_ALLOWED/, url)
    t.equal(judgeBy({ ...cluster, allowed: ['loopback'] })(url), undefined, url)
  }
  t.equal(judgeBy()('http://127.0.0.2:8081'), undefined, 'not where we listen')
  for (const url of ['http://0.0.0.0:9000', 'http://127.9:1', 'http://[::ffff:127.0.0.1]:9000']) {
    t.type(judgeBy({ opensLoopback: false })(url), 'string', url)
  }
})

test('link-local addresses and metadata services are refused', async (t) => {
  for (const host of [
    '169.254.169.254',
    '169.254.1.1',
    '2852039166',
    '0xa9fea9fe',
    '169.254.43518',
    '[::ffff:169.254.169.254]',
    '[64:ff9b::a9fe:a9fe]',
    '[64:ff9b:1::a9fe:a9fe]',
    '[64:ff9b:1:a9fe:a9:fe00::]',
    '[2002:a9fe:a9fe::]',
    '[::ffff:0:a9fe:a9fe]',
    '[::a9fe:a9fe]',
    '[fe80::1]',
    '[febf::1]',
    '[fd00:ec2::254]',
    'metadata.google.internal',
    '168.63.129.16',
    '100.100.100.200',
    'instance-data',
    'Metadata.Google.Internal.',
    'metadata',
  ]) {
    t.match(judgeBy()(`http://${host}/computeMetadata`), /MODEL_ADDRESSES_ALLOWED/, host)
  }
  const allowed = ['169.254.10.0/24', 'metadata.google.internal']
  t.equal(judgeBy({ allowed })('http://169.254.10.3'), undefined)
  t.equal(judgeBy({ allowed })('http://metadata.google.internal'), undefined)
  t.type(judgeBy({ allowed })('http://169.254.169.254'), 'string')
})

test('an address within another is allowed by either', async (t) => {
  const within = 'http://[64:ff9b:1::a9fe:a03]'
  t.equal(judgeBy({ allowed: ['169.254.10.0/24'] })(within), undefined)
  t.equal(judgeBy({ allowed: ['64:ff9b:1::/48'] })(within), undefined)
  // It is allowed with one length of the prefix only.
  const both = 'http://[64:ff9b:1:a9fe:a9:fe00:a9fe:a03]'
  t.match(judgeBy({ allowed: ['169.254.10.0/24'] })(both), /169\.254\.169\.254/)
})

test('all other addresses are open', async (t) => {
  for (const url of [
    'http://10.0.0.5:8081',
    'http://sim.llm.svc.cluster.local.:8081',
    'https://api.example/v1',
    'http://[fd00:ec2::253]',
    'http://[2001:db8::1]:8081',
    'http://170.254.169.254',
    'http://localhost.example:8081',
    'http://[64:ff9b::5db8:d822]:8081',
    'http://[64:ff9b:1::5db8:d822]:8081',
    'http://[64:ff9b:2::7f00:1]:8081',
    'http://[2002:5db8:d822::7f00:1]:8081',
    'http://[2001:db8::ffff:7f00:1]:8081',
  ]) {
    t.equal(judgeBy({ opensLoopback: false })(url), undefined, url)
  }
})
