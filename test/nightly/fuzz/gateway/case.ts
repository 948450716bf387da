/** A case: a request from the corpus, changes to it, and the standing of its credential. */

import type { CorpusEntry } from './corpus.ts'
import { createDice, type Dice, seedOf } from './dice.ts'
import { type Draft, parseDraft } from './draft.ts'
import { drawMutations, mutations } from './mutations.ts'
import { type Standing, standings } from './world.ts'

export interface Case {
  readonly entry: CorpusEntry
  readonly changes: readonly Change[]
  readonly standing: Standing
}

export interface Change {
  readonly name: string
  readonly seed: number
}

/** Generates the case with this number for this seed. */
export function drawCase(corpus: readonly CorpusEntry[], seed: number, index: number): Case {
  const dice = createDice(seedOf(seed, index))
  const entry = dice.pick(corpus)
  const changes = drawMutations(dice).map((name) => ({ name, seed: dice.below(2 ** 31) }))
  return { entry, changes, standing: drawStanding(dice) }
}

function drawStanding(dice: Dice): Standing {
  if (dice.chance(70)) return 'good'
  return dice.chance(55) ? 'spent' : dice.pick(['token', 'token', 'revoked', 'none'] as const)
}

/** Builds the request of a case on a lane; always the same. */
export function build({ entry, changes }: Case, lane: string): Draft {
  const draft = parseDraft(entry.bytes(lane))
  draft.transport = entry.transport
  for (const { name, seed } of changes) mutations.get(name)?.(draft, createDice(seed))
  return draft
}

export function describe({ entry, changes, standing }: Case): string {
  const made = changes.map(({ name, seed }) => `${name}:${seed}`).join(' ')
  return `${entry.name}${made === '' ? '' : ` + ${made}`} (${standing})`
}

/** Parses the text of `describe`. */
export function readCase(text: string, corpus: readonly CorpusEntry[]): Case {
  const [, name, made = '', who] = /^(\S+)(?: \+ (.*?))? \((\w+)\)$/.exec(text) ?? []
  const entry = corpus.find((each) => each.name === name)
  const standing = standings.find((each) => each === who)
  if (entry === undefined || standing === undefined) throw new Error(`no case: ${text}`)
  const changes = made
    .split(' ')
    .filter(Boolean)
    .map((each) => {
      const [change = '', seed] = each.split(':')
      return { name: change, seed: Number(seed) }
    })
  return { entry, changes, standing }
}
