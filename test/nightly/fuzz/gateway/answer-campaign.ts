/**
 * Sends responses of all forms through the gateway, and checks that each is counted as reported.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Answer, drawAnswer, modelText, plainAnswer, plainTokens } from './answer.ts'
import { seedOf } from './dice.ts'
import type { Seat } from './world.ts'

export interface AnswerFind {
  readonly number: number
  readonly answer: Answer
  readonly counted: number
  readonly status: number
  /** How often the text of the model has reached the client. */
  readonly texts: number
}

export interface AnswerOptions {
  readonly seats: readonly Seat[]
  readonly url: string
  readonly seed: number
  /** How long to go on, or for how many responses. */
  readonly seconds: number
  readonly most?: number
  readonly onFind: (find: AnswerFind) => void
}

export interface AnswerScore {
  readonly tried: number
  /**
   * Traits that occurred in at least four promised responses, none of which was counted correctly.
   */
  readonly culprits: readonly string[]
}

export async function answerCampaign(options: AnswerOptions): Promise<AnswerScore> {
  const { seats, url, seed, seconds, most = Number.POSITIVE_INFINITY, onFind } = options
  const endsAt = performance.now() + seconds * 1_000
  let drawn = 0
  const tried = new Map<string, number>()
  const failed = new Map<string, number>()
  const count = (of: Map<string, number>, { traits }: Answer) => {
    for (const trait of new Set(traits)) of.set(trait, (of.get(trait) ?? 0) + 1)
  }
  const run = async (seat: Seat) => {
    while (drawn < most && performance.now() < endsAt) {
      drawn += 1
      const number = seedOf(seed, 'answer', drawn)
      const answer = drawAnswer(number)
      const { status, counted, texts } = await countOne(seat, url, answer, number)
      if (answer.allowed.length === 1) count(tried, answer)
      if (status !== 200 || !answer.allowed.includes(counted) || texts !== answer.texts) {
        if (answer.allowed.length === 1) count(failed, answer)
        onFind({ number, answer, counted, status, texts })
      }
    }
  }
  await Promise.all(seats.map(run))
  const culprits = [...failed].filter(([trait, times]) => times > 3 && times === tried.get(trait))
  return { tried: drawn, culprits: culprits.map(([trait]) => trait) }
}

/**
 * Returns exactly what this response counted. Envoy reports usage in the order in which responses
 * end, so the count is complete once the call after it has been counted.
 */
async function countOne(
  seat: Seat,
  url: string,
  answer: Answer,
  number: number,
): Promise<{ status: number; counted: number; texts: number }> {
  const before = await seat.counted()
  const { status, texts } = await call(seat, url, answer, number)
  await call(seat, url, plainAnswer())
  const giveUpAt = performance.now() + 20_000
  let counted = (await seat.counted()) - before
  while (counted < plainTokens) {
    if (performance.now() > giveUpAt) throw new Error('the call after the response is not counted')
    await delay(5)
    counted = (await seat.counted()) - before
  }
  return { status, counted: counted - plainTokens, texts }
}

async function call(
  seat: Seat,
  url: string,
  { isStream: stream, operation }: Answer,
  number?: number,
): Promise<{ status: number; texts: number }> {
  const headers = new Headers({ 'content-type': 'application/json' })
  headers.set('authorization', `Bearer ${seat.keys.good}`)
  if (number !== undefined) headers.set('x-answer', String(number))
  const body = JSON.stringify({ model: 'sim', stream, messages: [] })
  const path = `/${seat.name}/sim/v1/${operation}`
  const response = await fetch(url + path, { method: 'POST', headers, body })
  const text = await response.text().catch(() => '')
  return { status: response.status, texts: text.split(modelText).length - 1 }
}

/** A find as lines, for a comment of the test. */
export function showAnswer({ number, answer, counted, status, texts }: AnswerFind): string {
  const bytes = Buffer.concat(answer.parts).toString()
  const lines = [
    `FIND answer ${number}: ${answer.traits.join(' ')}: ${status}, ${counted} counted, ${texts} of ${answer.texts} texts`,
    `  may be ${answer.allowed.join(' or ')}; ${JSON.stringify(bytes.slice(0, 700))}`,
  ]
  return lines.join('\n')
}
