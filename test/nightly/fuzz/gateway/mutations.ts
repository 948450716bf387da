/** All changes by name, and how often each is used. */
import type { Dice } from './dice.ts'
import type { Draft } from './draft.ts'
import * as body from './mutate-body.ts'
import * as framing from './mutate-framing.ts'
import * as headers from './mutate-headers.ts'
import * as label from './mutate-label.ts'
import * as target from './mutate-target.ts'

export type Mutation = (draft: Draft, dice: Dice) => void

const weighted: Readonly<Record<string, readonly [weight: number, mutation: Mutation]>> = {
  label: [6, label.label],
  charset: [6, label.charset],
  'two-labels': [2, label.twoLabels],
  encoding: [1, label.encoding],
  member: [7, body.member],
  replacement: [5, body.replacement],
  polyglot: [6, body.polyglot],
  junk: [3, body.junk],
  escape: [2, body.escaped],
  bytes: [2, body.bytes],
  size: [1, body.size],
  large: [2, body.large],
  document: [2, body.document],
  tail: [6, target.tail],
  operation: [5, target.operation],
  infix: [4, target.infix],
  spelling: [5, target.spelling],
  form: [2, target.form],
  method: [2, target.method],
  header: [6, headers.header],
  'odd-line': [2, headers.oddLine],
  chunked: [3, framing.chunked],
  length: [2, framing.length],
  second: [2, framing.second],
  lines: [3, framing.lines],
  http2: [3, framing.http2],
  noise: [3, framing.noise],
}

export const mutations: ReadonlyMap<string, Mutation> = new Map(
  Object.entries(weighted).map(([name, [, mutation]]) => [name, mutation]),
)

const drawn = Object.entries(weighted).flatMap(([name, [weight]]) =>
  Array<string>(weight).fill(name),
)

/** The names of one to four changes. */
export function drawMutations(dice: Dice): readonly string[] {
  return Array.from({ length: dice.pick([1, 1, 2, 2, 3, 4]) }, () => dice.pick(drawn))
}
