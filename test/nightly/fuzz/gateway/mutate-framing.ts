/** Changes of how the bytes are framed and sent. */
import type { Dice } from './dice.ts'
import { type Draft, setHeader } from './draft.ts'

function chunks(body: Buffer, dice: Dice): Buffer {
  const parts: (Buffer | string)[] = []
  for (let at = 0; at < body.length; ) {
    const part = body.subarray(at, at + 1 + dice.below(dice.pick([4, 60, 5_000])))
    const hex = part.length.toString(16)
    const size = dice.pick([
      hex,
      hex,
      hex.toUpperCase(),
      `000${hex}`,
      `${hex};a=b`,
      `${hex};a="\\""`,
      `${hex} `,
    ])
    parts.push(`${size}\r\n`, part, '\r\n')
    at += part.length
    // Thousands of small parts find no more than a hundred.
    if (parts.length > 300) {
      const rest = body.subarray(at)
      if (rest.length > 0) parts.push(`${rest.length.toString(16)}\r\n`, rest, '\r\n')
      break
    }
  }
  const end = dice.pick(['0', '0', '000', '0;x'])
  const trailer = dice.pick([
    '',
    '',
    '',
    'x: y\r\n',
    'content-type: application/xml\r\n',
    'authorization: Bearer x\r\n',
    'content-length: 5\r\n',
  ])
  parts.push(`${end}\r\n${trailer}\r\n`)
  return Buffer.concat(parts.map((part) => Buffer.from(part)))
}

export function chunked(draft: Draft, dice: Dice): void {
  draft.body = chunks(draft.body, dice)
  const te = dice.chance(70)
    ? 'transfer-encoding: chunked'
    : dice.pick([
        'Transfer-Encoding: Chunked',
        'transfer-encoding:chunked',
        'transfer-encoding : chunked',
        'transfer-encoding: identity, chunked',
        'transfer-encoding: chunked, identity',
        'transfer-encoding: gzip, chunked',
        'transfer-encoding: xchunked',
        'transfer-encoding: "chunked"',
        'transfer-encoding: chunked\r\ntransfer-encoding: x',
        'transfer-encoding:\r\n chunked',
        'transfer_encoding: chunked',
      ])
  const keepsLength = dice.chance(15)
  if (keepsLength) draft.headers.push(te)
  else setHeader(draft, 'content-length', te)
}

export function length(draft: Draft, dice: Dice): void {
  const real = draft.body.length
  const value = dice.pick([
    ...[
      `${real - 1}`,
      `${real + 1}`,
      `+${real}`,
      `0${real}`,
      ` ${real} `,
      `${real}.0`,
      '0',
      '-1',
      '',
    ],
    ...[
      `${real}, ${real}`,
      `${real}, ${real + 1}`,
      '18446744073709551616',
      `${real}x`,
      `0x${real.toString(16)}`,
    ],
    ...[`${real}\r\ncontent-length: ${real}`, `${real}\r\ncontent-length: 0`],
  ])
  setHeader(draft, 'content-length', `content-length: ${value}`)
}

/**
 * Adds a second request after the first. Depending on the framing it is a separate request, a part of
 * the body, or left over.
 */
export function second(draft: Draft, dice: Dice): void {
  const path = dice.pick(['/v1/chat/completions', '/v1/models', '/v1/completions'])
  const json = '{"model":"sim","messages":[]}'
  const lines = [`POST ${path} HTTP/1.1`, 'host: gateway', 'content-type: application/json']
  if (dice.chance(70)) lines.push('authorization: Bearer {{key}}')
  lines.push(`content-length: ${json.length}`, dice.chance(80) ? 'connection: close' : 'x: y')
  draft.tail = Buffer.from([...lines, '', json].join('\r\n'))
  if (dice.chance(60)) setHeader(draft, 'connection')
}

/** Changes line ends and versions, or adds bytes before the request. */
export function lines(draft: Draft, dice: Dice): void {
  const text = (change: (head: string) => string) => (bytes: Buffer) => {
    const end = bytes.indexOf('\r\n\r\n')
    if (end < 0) return bytes
    const head = change(bytes.subarray(0, end + 4).toString('latin1'))
    return Buffer.concat([Buffer.from(head, 'latin1'), bytes.subarray(end + 4)])
  }
  dice.pick([
    () => {
      draft.version = dice.pick([
        'HTTP/1.0',
        'HTTP/1.0',
        'HTTP/0.9',
        'HTTP/2.0',
        'HTTP/1.2',
        'http/1.1',
        '',
      ])
    },
    () => {
      draft.garble.push(text((head) => head.replaceAll('\r\n', '\n')))
    },
    () => {
      draft.garble.push(text((head) => head.replace('\r\n', '\n')))
    },
    () => {
      draft.garble.push(text((head) => head.replace('\r\n', '\r')))
    },
    () => {
      draft.garble.push(text((head) => `\r\n\r\n${head}`))
    },
    () => {
      draft.garble.push(text((head) => head.replaceAll('\r\n', '\r\r\n')))
    },
    () => {
      draft.garble.push(text((head) => head.replace(' ', '\t')))
    },
    () => {
      draft.transport = 'pieces'
    },
    () => {
      draft.transport = 'pieces'
    },
  ])()
}

export function http2(draft: Draft, dice: Dice): void {
  draft.transport = 'http2'
  if (dice.chance(50)) setHeader(draft, 'content-length')
}

/** Changes, drops or doubles bytes anywhere. */
export function noise(draft: Draft, dice: Dice): void {
  const times = 1 + dice.below(4)
  const edits = Array.from({ length: times }, () => ({
    where: dice.below(1_000_000),
    what: dice.below(4),
    byte: dice.below(256),
  }))
  draft.garble.push((bytes) => {
    let changed = bytes
    for (const { where, what, byte } of edits) {
      const at = where % Math.max(1, changed.length)
      const put =
        what === 0
          ? [byte]
          : what === 1
            ? []
            : [changed[at] ?? 0, what === 2 ? byte : (changed[at] ?? 0)]
      changed = Buffer.concat([changed.subarray(0, at), Buffer.from(put), changed.subarray(at + 1)])
    }
    return changed
  })
}
