/** Changes of the body: valid and invalid JSON, other encodings, other documents. */
import type { Dice } from './dice.ts'
import type { Draft } from './draft.ts'

const fields = ['stream', 'model', 'stream_options', 'include_usage'] as const

/** A spelling that some parsers may take for the name. */
function spelling(name: string, dice: Dice): string {
  const at = dice.below(name.length)
  const code = name.charCodeAt(at).toString(16).padStart(4, '0')
  const camel = name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
  const put = (letter: string) => name.slice(0, at) + letter + name.slice(at + 1)
  return dice.pick([
    name,
    name,
    name.toUpperCase(),
    name.charAt(0).toUpperCase() + name.slice(1),
    camel,
    camel.charAt(0).toUpperCase() + camel.slice(1),
    name.replaceAll('_', '-'),
    put(`\\u${code}`),
    put(`\\u${code.toUpperCase()}`),
    put(`\\U${code}`),
    put(`\\x${code.slice(2)}`),
    name.replace('s', 'ſ'),
    name.replace('s', '\\u017f'),
    name.replace('i', 'ı'),
    `${name}\\u0000`,
    `${name}\\u0000x`,
    `\\ufeff${name}`,
    ` ${name}`,
    `${name} `,
    `${name}\\t`,
    `${name}[]`,
    `${name}.include_usage`,
    `${name}\u200b`,
    put(String.fromCharCode(0xff00 + name.charCodeAt(at) - 0x20)),
  ])
}

function value(dice: Dice): string {
  return dice.pick([
    ...[
      'true',
      'false',
      'null',
      '1',
      '0',
      '"true"',
      '"false"',
      '""',
      '[]',
      '{}',
      '-0',
      '1.0',
      '1e0',
    ],
    ...[
      '1e999',
      '-1e999',
      'NaN',
      'Infinity',
      '-Infinity',
      '0x1',
      'TRUE',
      'True',
      'yes',
      'undefined',
    ],
    ...[
      '12345678901234567890123',
      '0.1e-400',
      '01',
      '+1',
      '.5',
      '5.',
      '"other"',
      '"sim"',
      "'other'",
    ],
    ...[
      '"o\\u0074her"',
      '"\\ud800"',
      '"sim\\u0000"',
      '"sim\\u0000other"',
      '["sim","other"]',
      '"\t"',
    ],
    ...['{"include_usage":false}', '{"include_usage":true}', '{"include_usage":null}', '[true]'],
    ...[
      '{"include_usage":false,"include_usage":true}',
      '{"Include_Usage":false}',
      '{"include_usage":0}',
    ],
    ...['{"includeUsage":false}', '{"include_usage":"false"}', '"\\u0074rue"', '{"$ref":"#"}'],
    ...['"<m><model>other</model><stream>true</stream></m>"', '"&model=other&stream=true&x="'],
    ...['"+ACI-,+ACI-stream+ACI-:true,+ACI-model+ACI-:+ACI-other+ACI-,+ACI-y+ACI-:+ACI-"'],
    ...[
      '"\\u0022,\\u0022stream\\u0022:true,\\u0022model\\u0022:\\u0022other\\u0022,\\u0022y\\u0022:\\u0022"',
    ],
    ...[
      '"~{\\"~},\\"stream\\":true,\\"y\\":\\""',
      '"\u001b$B\\"\u001b(B"',
      '"\u0081\\",\\"stream\\":true,\\"y\\":\\""',
    ],
  ])
}

const text = (draft: Draft) => draft.body.toString('utf8')
const setText = (draft: Draft, json: string) => {
  draft.body = Buffer.from(json)
}

/** Adds a member at the start or end of the body or of an inner object. */
export function member(draft: Draft, dice: Dice): void {
  const added = `"${spelling(dice.pick(fields), dice)}":${value(dice)}`
  const json = text(draft)
  const places = [...json.matchAll(/[{}]/g)].map((found) => found.index)
  if (places.length === 0) return
  const at = dice.pick([places[0] ?? 0, places.at(-1) ?? 0, dice.pick(places)])
  const opens = json[at] === '{'
  const put = opens ? `{${added},` : `,${added}}`
  setText(draft, json.slice(0, at) + put + json.slice(at + 1))
}

/** Replaces a value or a name. */
export function replacement(draft: Draft, dice: Dice): void {
  const name = dice.pick(fields)
  const found = new RegExp(`"${name}"(\\s*):(\\s*)("[^"]*"|\\{[^}]*\\}|[^,}\\s]+)`).exec(
    text(draft),
  )
  if (found === null) {
    member(draft, dice)
    return
  }
  const keepsName = dice.chance(60)
  const put = keepsName ? `"${name}":${value(dice)}` : `"${spelling(name, dice)}":${found[3]}`
  setText(
    draft,
    text(draft).replace(found[0], () => put),
  )
}

/**
 * Inserts something that only some parsers skip, between two tokens, at the start or at the end.
 */
export function junk(draft: Draft, dice: Dice): void {
  const put = dice.pick([
    ...[
      ' ',
      '\n',
      '\r',
      '\t',
      '\v',
      '\f',
      '\0',
      '\u00a0',
      '\ufeff',
      '\u2028',
      '/**/',
      '//\n',
      '#\n',
      ',',
    ],
    ...[
      '/*"stream":true,*/',
      '//"stream":true,\n',
      ';',
      ")]}'\n",
      '<!---->',
      '\x1e',
      '\x1a',
      'data: ',
    ],
    ...['{"stream":true,"model":"other"}', '}{', '[', ']', '"', '\\', '&stream=true&model=other'],
    ...['\n{"model":"other","stream":true}\n', '\0{"stream":true}'],
  ])
  const json = text(draft)
  const places = [0, json.length, ...[...json.matchAll(/[{}[\]:,]/g)].map(({ index }) => index + 1)]
  const at = dice.chance(30) ? dice.pick([0, json.length]) : dice.pick(places)
  setText(draft, json.slice(0, at) + put + json.slice(at))
}

/** Writes one letter in a string as an escape. */
export function escaped(draft: Draft, dice: Dice): void {
  const json = text(draft)
  const places = [...json.matchAll(/(?<=["a-z_])[a-z](?=[a-z_"])/g)].map(({ index }) => index)
  if (places.length === 0) return
  const at = dice.pick(places)
  const code = json.charCodeAt(at).toString(16)
  const put = dice.pick([
    `\\u00${code}`,
    `\\u00${code.toUpperCase()}`,
    `\\x${code}`,
    `\\${json[at]}`,
  ])
  setText(draft, json.slice(0, at) + put + json.slice(at + 1))
}

/** Writes the same text in another encoding, or with invalid bytes. */
export function bytes(draft: Draft, dice: Dice): void {
  const json = text(draft)
  const big = (of: Buffer) => Buffer.from(of).swap16()
  const little = Buffer.from(json, 'utf16le')
  const wide = Buffer.from([...json].flatMap((letter) => [letter.charCodeAt(0) & 0xff, 0, 0, 0]))
  const overlong = (at: number) => {
    const code = draft.body[at] ?? 0
    const pair = Buffer.from([0xc0 | (code >> 6), 0x80 | (code & 0x3f)])
    return Buffer.concat([draft.body.subarray(0, at), pair, draft.body.subarray(at + 1)])
  }
  draft.body = dice.pick([
    () => little,
    () => big(little),
    () => Buffer.concat([Buffer.from([0xff, 0xfe]), little]),
    () => Buffer.concat([Buffer.from([0xfe, 0xff]), big(little)]),
    () => wide,
    () => Buffer.concat([Buffer.from([0xff, 0xfe, 0, 0]), wide]),
    () => Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), draft.body]),
    () => Buffer.from(json.replaceAll('"', '+ACI-')),
    () => overlong(dice.below(Math.max(1, draft.body.length))),
    () => Buffer.from(json.replace(':', ':"\xff\xfe\x80",'), 'latin1'),
  ])()
}

/** Adds deep, long or numerous values, which cost parsers most. */
export function size(draft: Draft, dice: Dice): void {
  const much = 2 ** (3 + dice.below(10))
  const filler = dice.pick([
    () => '['.repeat(much) + ']'.repeat(much),
    () => `${'{"a":'.repeat(much)}1${'}'.repeat(much)}`,
    () => `"${'a'.repeat(much * 8)}"`,
    () => `"${'\\'.repeat(much * 2)}"`,
    () => '1'.repeat(much),
    () => `[${'[],'.repeat(much)}0]`,
    () => `{${Array.from({ length: Math.min(much, 2_000) }, (_, i) => `"m${i}":1`).join(',')}}`,
  ])()
  setText(
    draft,
    text(draft).replace('{', () => `{"a":${filler},`),
  )
}

/**
 * Makes the body larger than what is read before authentication: around 64 KiB, and around 1 MiB.
 */
export function large(draft: Draft, dice: Dice): void {
  const much = dice.pick([65_400, 65_537, 70_000, 200_000, 1_048_000, 1_100_000])
  const put = dice.pick([
    ' '.repeat(much),
    `"a":"${'a'.repeat(much)}",`,
    `"a":[${'{},'.repeat(much / 3)}0],`,
  ])
  const json = text(draft)
  const at = put.startsWith(' ') ? dice.pick([0, json.length]) : json.indexOf('{') + 1
  setText(draft, json.slice(0, at) + put + json.slice(at))
}

/** Replaces the whole document. */
export function document(draft: Draft, dice: Dice): void {
  const json = text(draft)
  setText(
    draft,
    dice.pick([
      `[${json}]`,
      `[${json},${json}]`,
      JSON.stringify(json),
      `${json}\n${json}`,
      `json=${encodeURIComponent(json)}`,
      'model=sim&stream=true&messages=x',
      'model=other',
      'model=sim&model=other&stream=on',
      '<body><model>sim</model><stream>true</stream></body>',
      '<?xml version="1.0"?><body><model>other</model></body>',
      '--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nsim\r\n--x--\r\n',
      '%7b"model":"sim"%7d',
      '',
      'null',
      '"sim"',
      json.slice(0, dice.below(json.length + 1)),
    ]),
  )
}

/** Writes a JSON document that is another document for another kind of parser. */
export function polyglot(draft: Draft, dice: Dice): void {
  const hidden = dice.pick([
    '<b><model>other</model><stream>true</stream></b>',
    '<b><model>sim</model><stream>true</stream></b>',
    '&model=other&stream=true&x=',
    '&stream=true&model=sim&x=',
    '+ACI-,+ACI-stream+ACI-:true,+ACI-y+ACI-:+ACI-',
    '+ACI-,+ACI-model+ACI-:+ACI-other+ACI-,+ACI-y+ACI-:+ACI-',
    '\\u0022,\\u0022stream\\u0022:true,\\u0022y\\u0022:\\u0022',
    '\r\n--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nother\r\n--x--\r\n',
  ])
  setText(
    draft,
    text(draft).replace('{', () => `{"x":"${hidden}",`),
  )
}
