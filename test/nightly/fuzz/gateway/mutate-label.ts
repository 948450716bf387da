/** Changes of content-type, valid and invalid, and of content-encoding. */
import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import type { Dice } from './dice.ts'
import { type Draft, setHeader } from './draft.ts'

const types = [
  ...[
    'application/json',
    'text/json',
    'application/vnd.api+json',
    'Application/JSON',
    'text/plain',
  ],
  ...['application/xml', 'text/xml', 'APPLICATION/XML', 'application/soap+xml'],
  ...['application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'multipart/mixed'],
  ...['application/octet-stream', 'application/msgpack', 'application/x-protobuf', '*/*', ''],
  ...[
    'application/json, application/xml',
    'application/xml, application/json',
    'application/json/',
  ],
  ...['application/json application/xml', 'application/x-ndjson', 'application/grpc'],
] as const

/** Charsets in which ASCII bytes can mean something else, and some in which they mean the same. */
const charsets = [
  ...['utf-7', 'UTF7', 'unicode-1-1-utf-7', 'utf-16', 'utf-16le', 'utf-16be', 'utf-32', 'ucs-2'],
  ...[
    'unicode_escape',
    'raw_unicode_escape',
    'raw-unicode-escape',
    'hz',
    'hz-gb-2312',
    'iso-2022-jp',
  ],
  ...['shift_jis', 'gbk', 'big5', 'cp037', 'ibm500', 'punycode', 'idna', 'utf-8-sig', 'rot13'],
  ...[
    'iso-8859-1',
    'us-ascii',
    'utf-8',
    'UTF8',
    'none',
    'utf\u00ad-8',
    'utf-8,utf-7',
    'utf-8 ',
    '7',
  ],
] as const

function parameter(dice: Dice): string {
  const charset = dice.pick(charsets)
  const cut = 1 + dice.below(Math.max(1, charset.length - 1))
  const [start, rest] = [charset.slice(0, cut), charset.slice(cut)]
  return dice.pick([
    `charset=${charset}`,
    `charset="${charset}"`,
    `Charset=${charset}`,
    `charset='${charset}'`,
    `charset = ${charset}`,
    `charset\t=\t"${charset}"`,
    `charset*=utf-8''${charset}`,
    `charset*=us-ascii'en'${charset}`,
    `charset*0="${start}"; charset*1="${rest}"`,
    `charset*1="${rest}"; charset*0="${start}"`,
    `charset*0*=utf-8''${start}; charset*1=${rest}`,
    `x="charset=utf-8"; charset=${charset}`,
    `x="charset=utf-8; charset=${charset}`,
    `charset=utf-8; charset=${charset}`,
    `charset=${charset}; charset=utf-8`,
    `charset="ut\\f-8"; charset="${start}\\${rest}"`,
    `charset=(utf-8)${charset}`,
    `x=y;;charset=${charset}`,
    `ſcharset=utf-8; charset=${charset}`,
    `%63harset=${charset}`,
    `charset=%${charset.charCodeAt(0).toString(16)}${charset.slice(1)}`,
    `charset=\u00a0${charset}`,
  ])
}

export function label(draft: Draft, dice: Dice): void {
  const parameters = Array.from({ length: dice.below(3) }, () => parameter(dice))
  const space = dice.pick(['; ', ';', ' ;', ';\t', '; ; '])
  const value = [dice.pick(types), ...parameters].join(space)
  setHeader(draft, 'content-type', `${dice.pick(['content-type', 'Content-Type'])}: ${value}`)
}

/** Keeps JSON, and adds a charset. */
export function charset(draft: Draft, dice: Dice): void {
  setHeader(draft, 'content-type', `content-type: application/json; ${parameter(dice)}`)
}

/** Writes the content type twice, folded or misspelled. */
export function twoLabels(draft: Draft, dice: Dice): void {
  const one = `application/json; ${parameter(dice)}`
  const other = dice.pick(types)
  const lines = dice.pick([
    [`content-type: ${one}`, `content-type: ${other}`],
    [`content-type: ${other}`, `Content-Type: ${one}`],
    [`content-type: application/json;\r\n ${parameter(dice)}`],
    ['content-type: application/json', `content-type : ${other}`],
    ['content-type: application/json', `content_type: ${other}`],
    ['content-type: application/json', `x-content-type: ${other}`],
    [],
  ])
  setHeader(draft, 'content-type', ...lines)
}

export function encoding(draft: Draft, dice: Dice): void {
  const [name, encode] = dice.pick([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['deflate', deflateRawSync],
    ['identity', (body: Buffer) => body],
    ['gzip, identity', gzipSync],
    ['', gzipSync],
    ['br', (body: Buffer) => body],
    ['GZIP', gzipSync],
  ] as const)
  draft.body = encode(draft.body)
  setHeader(draft, 'content-encoding', `content-encoding: ${name}`)
}
