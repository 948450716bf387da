import { createHash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { test } from 'tap'
import {
  type ApiKeyRecord,
  endsSoon,
  hashOfKey,
  type KeyMarkers,
  keyIdBytes,
  keySecretBytes,
  looksLikeKey,
  mintKey,
  printablePrefixOf,
  statusAt,
} from '../../../src/keys/rules/api-key.ts'

const markers: KeyMarkers = { own: 'tg', accepted: new Set(['tg', 'oai']) }
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

function fresh(marker = 'tg') {
  return mintKey(marker, randomBytes(keyIdBytes), randomBytes(keySecretBytes))
}

function base62(bytes: Uint8Array): string {
  let rest = BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
  let text = ''
  for (; rest > 0n; rest /= 62n) text = alphabet[Number(rest % 62n)] + text
  return text || '0'
}

function sha256(id: string, secret: string): string {
  return createHash('sha256').update(id).update(Buffer.of(0)).update(secret).digest('hex')
}

function checksum(text: string): string {
  const crc = Buffer.alloc(4)
  crc.writeUInt32BE(crc32(text))
  return base62(crc).padStart(6, '0')
}

test('a key has a marker, an id, a secret and a checksum', async (t) => {
  t.equal(keyIdBytes, 12)
  t.equal(keySecretBytes, 32)
  for (let round = 0; round < 100; round += 1) {
    const id = randomBytes(12)
    const secret = randomBytes(32)
    const minted = mintKey('tg', id, secret)
    const unsigned = `sk-tg-${base62(id)}_${base62(secret)}`
    t.equal(minted.key, unsigned + checksum(unsigned))
    t.equal(minted.hash, sha256(base62(id), base62(secret) + checksum(unsigned)))
    t.equal(minted.prefix, `sk-tg-${base62(id).slice(0, 12)}...`)
    t.equal(hashOfKey(minted.key, markers), minted.hash)
  }
})

test('even all-zero bytes make a valid key', async (t) => {
  const minted = mintKey('tg', new Uint8Array(12), new Uint8Array(32))
  t.match(minted.key, /^sk-tg-0_0[0-9A-Za-z]{6}$/)
  t.equal(hashOfKey(minted.key, markers), minted.hash)
  t.equal(minted.prefix, 'sk-tg-0...')
})

test('one wrong character is detected without a store', async (t) => {
  const { key } = fresh()
  for (let at = 6; at < key.length; at += 1) {
    for (const other of ['0', '1', '_'].filter((one) => one !== key[at])) {
      const broken = key.slice(0, at) + other + key.slice(at + 1)
      t.equal(hashOfKey(broken, markers), undefined, `character ${at}`)
    }
  }
  t.equal(hashOfKey(key.slice(0, -1), markers), undefined, 'cut short')
  t.equal(hashOfKey(`${key}0`, markers), undefined, 'longer')
  t.equal(hashOfKey(key.replace('sk-tg', 'sk-tG'), markers), undefined, 'another marker')
})

test('keys of the original service stay valid', async (t) => {
  const id = base62(randomBytes(12))
  const secret = base62(randomBytes(32))
  t.equal(hashOfKey(`sk-oai-${id}_${secret}`, markers), sha256(id, secret), 'without a checksum')
  t.equal(hashOfKey('sk-oai-a_b', markers), sha256('a', 'b'))
  t.equal(hashOfKey(`sk-tg-${id}_${secret}`, markers), undefined, 'ours requires a checksum')
  const onlyOwn: KeyMarkers = { own: 'tg', accepted: new Set() }
  t.equal(hashOfKey(`sk-oai-${id}_${secret}`, onlyOwn), undefined)
  t.equal(hashOfKey(fresh().key, onlyOwn)?.length, 64, 'our own marker is always accepted')
  t.equal(hashOfKey(fresh('acme').key, { own: 'acme', accepted: new Set() })?.length, 64)
})

test('other forms are not keys', async (t) => {
  for (const key of [
    '',
    'sk-',
    'sk--',
    'sk-oai',
    'sk-oai-',
    'sk-oai-_',
    'sk-oai-a_',
    'sk-oai-_b',
    'sk-oai-a',
    'sk-oai-ab',
    'sk-oai-a_b_c',
    'sk-oai-a-b_c',
    'sk-oai-a_b\n',
    'sk-oai-a\n_b',
    'sk-oai-a_b ',
    ' sk-oai-a_b',
    'SK-oai-a_b',
    'sk-OAI-a_b',
    'sk-xyz-a_b',
    'sk--a_b',
    'sk-oai-a_ü',
    'sk-oai-a_b\u0000',
    'sk-oai-a_b+',
    'sk-oai-a_b/',
    'sk-oai-a_b=',
    'sk-_a-b_c',
    'sk-constructor-a_b',
    'sk-__proto__-a_b',
    'sk-tg-a_b',
    'sk-tg-a_000000',
    `sk-oai-a_${'b'.repeat(300)}`,
    `sk-${'oai-'.repeat(100)}`,
  ]) {
    t.equal(hashOfKey(key, markers), undefined, JSON.stringify(key.slice(0, 30)))
  }
})

test('a checksum without a secret is not a key', async (t) => {
  const unsigned = 'sk-tg-a_'
  t.equal(hashOfKey(unsigned + checksum(unsigned), markers), undefined)
})

test('id and secret cannot be swapped', async (t) => {
  t.not(hashOfKey('sk-oai-ab_c', markers), hashOfKey('sk-oai-a_bc', markers))
})

test('the beginning of a credential tells keys from tokens', async (t) => {
  t.equal(looksLikeKey(fresh().key), true)
  t.equal(looksLikeKey('sk-anything'), true)
  for (const token of ['eyJhbGciOi', 'alice-token', 'SK-x', ' sk-x', 'xsk-', ''])
    t.equal(looksLikeKey(token), false)
})

test('a key can be found by its prefix', async (t) => {
  t.equal(printablePrefixOf('sk-tg-0123456789_abc'), 'sk-tg-012345')
  t.equal(printablePrefixOf('sk-tg-012345'), 'sk-tg-012345')
  for (const other of [
    '',
    'sk-tg-',
    'sk-tg-01234',
    'sk-TG-012345',
    'sk-tg-01234_',
    'alice-token',
  ]) {
    t.equal(printablePrefixOf(other), undefined, other)
  }
})

test('the status depends on the instant', async (t) => {
  const record: ApiKeyRecord = {
    id: 'id',
    hash: 'h',
    prefix: null,
    user: 'ada',
    groups: [],
    name: 'n',
    labels: {},
    caps: {},
    description: '',
    subscription: 's',
    status: 'active',
    ephemeral: false,
    createdAt: 0,
    expiresAt: 1_000,
    lastUsedAt: null,
  }
  t.equal(statusAt(record, 999), 'active')
  t.equal(statusAt(record, 1_000), 'expired', 'at the very second of the expiry')
  t.equal(statusAt(record, 1_001), 'expired')
  t.equal(statusAt({ ...record, expiresAt: null }, Number.MAX_SAFE_INTEGER), 'active')
  for (const now of [0, 2_000]) {
    t.equal(statusAt({ ...record, status: 'revoked' }, now), 'revoked')
    t.equal(statusAt({ ...record, status: 'expired' }, now), 'expired')
  }
})

test('a key ends soon in the last tenth of its life, and in its last seven days', async (t) => {
  const day = 86_400_000
  const short = { createdAt: 1_000, expiresAt: 1_000 + 10 * day }
  t.notOk(endsSoon(short, 999 + 9 * day))
  t.ok(endsSoon(short, 1_000 + 9 * day))
  t.ok(endsSoon(short, 1_000 + 11 * day))
  const long = { createdAt: 0, expiresAt: 365 * day }
  t.notOk(endsSoon(long, 358 * day - 1))
  t.ok(endsSoon(long, 358 * day))
  t.notOk(endsSoon({ createdAt: 0, expiresAt: null }, Number.MAX_SAFE_INTEGER))
})
