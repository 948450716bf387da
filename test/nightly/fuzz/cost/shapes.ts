/** Texts of which a place is filled: hostile shapes that are known, and mutations of them. */
import type { Dice } from '../gateway/dice.ts'
import type { Kind } from './places.ts'

/**
 * Repeated until a place is full. `{n}` is a running number, `{new}` text that this process has not
 * used before.
 */
export type Unit = readonly string[]

const numbers = [
  '1e300',
  '-1E+300',
  '1e-300',
  '1.5e308',
  '0e999999',
  '1e0000000000300',
  '0.0000000000000000001',
  '123456789012345678901234567890',
  '1234567.890123',
  '-0',
  '7',
  '9'.repeat(300),
  `0.${'0'.repeat(300)}1`,
  `1${'0'.repeat(300)}e-300`,
  `1e-${'0'.repeat(200)}9`,
]
const strings = [
  'ey-',
  '\\u0041',
  '\u0315\u0300',
  '',
  'a',
  '\\u00e9',
  '\\ud83d\\ude00',
  '\\n',
  '\\\\',
  '\\"',
  '\\/',
  'é',
  '漢',
  '😀',
  '\u0301',
  '\ufdfa',
  '\u017f',
  '~',
  ' ',
  '\\u0000',
  '/',
  'eyJ',
  'sk-a-',
  'usage',
  'data:',
  '{n}',
]
const values = [
  ...numbers,
  ...strings.map((text) => `"${text}"`),
  'true',
  'null',
  '[]',
  '{}',
  '[[]]',
  '{"a":{}}',
  '{"{n}":0}',
  '{"{new}{n}":0}',
  '{"a":0,"b":0}',
  `${'['.repeat(80)}${']'.repeat(80)}`,
  `${'{"a":'.repeat(80)}0${'}'.repeat(80)}`,
  '{"usage":{}}',
  '{"usage":{"total_tokens":1}}',
  '{"usage":null}',
  '{"model":"a"}',
  '{"total_tokens":1e300}',
]
const names = [
  '{n}',
  '{new}{n}',
  `{new}{n}${'a'.repeat(40)}`,
  '漢{new}{n}',
  'a{n}',
  '{n}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
  '\\u0061{n}',
  'é{n}',
  '\\ud83d\\ude00{n}',
  'usage{n}',
  'model{n}',
  'MODEL{n}',
  'stream_options{n}',
  '{n}\\u0000',
]
const escapes = [
  '%cc%95%cc%80',
  'ey-',
  'sk-a-',
  'a',
  '%25',
  '%41',
  '%e9',
  '%cd%85%cc%95%cc%80',
  '%ef%b7%ba',
  '%c5%bf',
  '%E1%BE%82',
  '%20',
  '%0a',
  '%3b',
  '%3f',
  '%23',
  '%zz',
  '%',
  ';',
  '.',
  '..',
  '~',
  '+',
  ':',
  '@',
  '-',
  '_',
  ',',
  '=',
  'eyJ',
  'A',
  '{n}',
]
const atoms: Readonly<Record<Kind, readonly string[]>> = {
  items: [...values.map((value) => `${value},`), ' ', '\\n', '\t 0,', '\r\n0,'],
  members: [
    ...names.map((name) => `"${name}":0,`),
    ...values.map((value) => `"{n}":${value},`),
    '"{n}"  :  0  ,',
    '"a":0,',
  ],
  text: strings.filter((text) => text !== ''),
  digits: ['0', '1', '9', '.', 'e', '-', '+', ' ', '0.', '1e', '\n'],
  path: ['/', '/..', ...escapes, '/a', '//', '%2f', '\\', '\u0301'],
  query: [
    ...escapes,
    '/',
    '/a',
    '/..',
    '%2f',
    '%5c',
    '\\',
    '?',
    '&',
    'a&',
    'a=b&',
    '{n}=&',
    '=',
    '&&',
    '[]',
    'a[]=&',
    '\u0301',
  ],
  header: [
    'ey-',
    ',',
    ' ',
    ' ,',
    ', ',
    'a,',
    'a, ',
    ';',
    '=',
    '"',
    '\\',
    '/',
    '*/*,',
    'a/b,',
    'a;',
    ';a=b',
    'q=0.1,',
    'text/html,',
    'application/json,',
    'application/json;',
    'charset=',
    'eyJ',
    'ey.',
    'sk-a-',
    'Bearer ',
    '\t',
    'é',
    '-',
    '0',
    'f',
    '1.1.1.1,',
    '::1,',
    'a=b; ',
    '{n},',
    '.',
    '00-',
    'bmFtZQ.',
    'eyJhIjoi',
  ],
  lines: [
    'x-{n}: a\r\n',
    '{n}: {n}\r\n',
    'cookie: a=b\r\n',
    'accept: */*\r\n',
    'accept: a\r\n',
    'x-api-key: a\r\n',
    'x_{n}: a\r\n',
    'x-maas-subscription: a\r\n',
    'x-tollgate-{n}: a\r\n',
    'x-envoy-{n}: 1\r\n',
    'x-forwarded-for: 1.1.1.1\r\n',
    'content-type: text/html\r\n',
    'traceparent: 00\r\n',
    'te: a\r\n',
    'connection: x-{n}\r\n',
  ],
  events: [
    'data: {"usage":{"total_tokens":1e300}}\n\n',
    'data: {}\n\n',
    'data:\n\n',
    'data\n\n',
    '\n',
    '\r',
    '\r\n',
    ':\n',
    ': a\n\n',
    'data: [DONE]\n\n',
    'data: 1\ndata: 2\n\n',
    'data: {}\n',
    'data: a\n',
    'data: "usage"\n\n',
    'data: "usage"\ndata: \n',
    'data: {"usage":null}\n\n',
    'data: {"usage":{}}\n\n',
    'data: {"usage":{"total_tokens":1}}\n\n',
    'data: {"usage":{"total_tokens":1},"choices":[]}\r\n\r\n',
    'data: {"choices":[],"usage":[[[]]]}\n\n',
    'data: {"response":{"usage":{}}}\n\n',
    'event: a\ndata: {}\n\n',
    'id: 1\n',
    'retry: 1\n',
    'a\n',
    '"usage"',
    'data: {"usage":',
    'data: [1e300,1e300,1e300]\n\n',
    'data: {"type":"message_delta","usage":{"output_tokens":1}}\n\n',
    'data: {"type":"message_start","message":{"usage":{"input_tokens":1}}}\n\n',
    'data: {"a":"\\u0041"}\n\n',
    '\ufeff',
  ],
}

/** Every atom alone: shapes of which one was expensive once. */
export function knownUnits(kind: Kind): readonly Unit[] {
  return atoms[kind].map((atom) => [atom])
}

/** A unit of up to four atoms. */
export function drawUnit(kind: Kind, dice: Dice): Unit {
  return Array.from({ length: 1 + dice.below(4) }, () => dice.pick(atoms[kind]))
}

/** A unit that differs from this one in one atom, or in one character. */
export function mutate(unit: Unit, kind: Kind, dice: Dice): Unit {
  const at = dice.below(unit.length)
  const atom = unit[at] as string
  const with_ = (...atoms: readonly string[]) => unit.toSpliced(at, 1, ...atoms)
  switch (dice.below(6)) {
    case 0:
      return with_(dice.pick(atoms[kind]))
    case 1:
      return with_(atom, dice.pick(atoms[kind]))
    case 2:
      return unit.length > 1 ? unit.toSpliced(at, 1) : with_(atom, atom)
    case 3:
      return with_(...Array.from({ length: 1 + dice.below(20) }, () => atom))
    default:
      return with_(mutateText(atom, dice))
  }
}

function mutateText(text: string, dice: Dice): string {
  const characters = [...text]
  const at = dice.below(characters.length + 1)
  const character = characters[at] ?? 'a'
  const others = '0123456789abcefABCEF.,:;-+~/%\\"[]{} \t'
  switch (dice.below(4)) {
    case 0:
      return characters.toSpliced(at, 1).join('') || 'a'
    case 1:
      return characters.toSpliced(at, 1, dice.pick([...others])).join('')
    case 2:
      return characters.toSpliced(at, 0, dice.pick([...others])).join('')
    default:
      return characters.toSpliced(at, 1, character.repeat(2 + dice.below(40))).join('')
  }
}

const fresh = '{new}'
let filled = 0

/** Whether each text of the unit is another one. */
export function isFresh(unit: Unit): boolean {
  return unit.join('').includes(fresh)
}

/** The unit's text, repeated as often as it fits into this many bytes, once at least. */
export function fill(unit: Unit, length: number): string {
  filled += 1
  const once = (unit.join('') || ' ').replaceAll(fresh, `${filled.toString(36)}x`)
  const parts: string[] = []
  let bytes = 0
  for (let n = 0; bytes < length; n += 1) {
    const part = once.replaceAll('{n}', n.toString(36))
    bytes += Buffer.byteLength(part)
    if (bytes > length && n > 0) break
    parts.push(part)
  }
  return parts.join('')
}
