/** Two weeks of usage as a few teams could have had it, for `tollgate demo`; identical at every call. */

import { hash } from 'node:crypto'
import { dayMs, hourMs } from '../../src/formats/time.ts'
import type { DemoUsage } from '../../src/usage/store.ts'

/** The number of days that the console shows, including today. */
const days = 14

/** How busy an hour is, from 0 to 1. `hour` is the hour of the day, `isWorkday` false from Saturday to Sunday. */
type Rhythm = (hour: number, isWorkday: boolean) => number

/** From nine to six, with a break; little on weekends. */
const office: Rhythm = (hour, isWorkday) => {
  const busy = [0.3, 0.7, 1, 0.9, 0.5, 0.8, 1, 0.9, 0.6, 0.2][hour - 8] ?? 0
  return isWorkday ? busy : busy * 0.06
}
/** Visitors of a site: always some, most of them in the evening. */
const site: Rhythm = (hour, isWorkday) =>
  (0.15 + 0.85 * Math.sin((Math.PI * hour) / 24) ** 2) * (isWorkday ? 1 : 0.75)
/** Before working hours. */
const nightly: Rhythm = (hour, isWorkday) => (isWorkday && hour >= 1 && hour < 5 ? 1 : 0)

interface Profile {
  readonly user: string
  readonly subscription: string
  readonly model: string
  readonly rhythm: Rhythm
  /** Requests in the busiest hour. */
  readonly most: number
  /** Tokens of a request, and the shares of the input that are cached and of the output that is reasoning. */
  readonly tokens: readonly [input: number, output: number]
  readonly cached?: number
  readonly reasoning?: number
  /** Refusals by limits per request, in hours above half of the maximum. */
  readonly refused?: number
}

const [premium, small, large] = ['team-a-premium', 'llm/sim-small', 'llm/sim-large']

/** Uses the subscriptions and models of the samples. */
const profiles: readonly Profile[] = [
  {
    user: 'demo-coding',
    subscription: premium,
    model: large,
    rhythm: office,
    most: 110,
    tokens: [9_000, 650],
    cached: 0.7,
    reasoning: 0.25,
    refused: 0.04,
  },
  {
    user: 'demo-coding',
    subscription: premium,
    model: small,
    rhythm: office,
    most: 190,
    tokens: [1_600, 90],
    cached: 0.4,
  },
  {
    user: 'demo-search',
    subscription: premium,
    model: small,
    rhythm: site,
    most: 620,
    tokens: [700, 45],
    cached: 0.1,
    refused: 0.01,
  },
  {
    user: 'demo-support',
    subscription: 'team-b-only',
    model: small,
    rhythm: office,
    most: 170,
    tokens: [1_900, 320],
    cached: 0.3,
    refused: 0.05,
  },
  {
    user: 'demo-evaluation',
    subscription: premium,
    model: large,
    rhythm: nightly,
    most: 130,
    tokens: [2_400, 800],
    reasoning: 0.5,
  },
  {
    user: 'demo-notebooks',
    subscription: 'team-a-basic',
    model: small,
    rhythm: office,
    most: 40,
    tokens: [600, 240],
    refused: 0.2,
  },
]

/** In US dollars per token. */
const rates: Readonly<Record<string, string>> = { [small]: '0.0000004', [large]: '0.0000025' }

/** The usage of the demo's users, by the beginnings of the days in UTC; today until `now`. */
export function demoHistory(now: number): ReadonlyMap<number, readonly DemoUsage[]> {
  const today = Math.floor(now / dayMs) * dayMs
  return new Map(
    Array.from({ length: days }, (_, i) => {
      const day = today - (days - 1 - i) * dayMs
      const hours = Array.from({ length: 24 }, (_, hour) => day + hour * hourMs)
      const past = hours.filter((hour) => hour <= now)
      return [day, past.flatMap((hour) => profiles.flatMap((each) => usageOf(each, hour)))]
    }),
  )
}

/** Empty for an hour without requests. Hours and weekdays are local, as the user of this machine sees them. */
function usageOf(profile: Profile, hour: number): readonly DemoUsage[] {
  const { user, subscription, model, rhythm, most, tokens, cached = 0, reasoning = 0 } = profile
  const at = new Date(hour)
  const busy = rhythm(at.getHours(), at.getDay() % 6 !== 0)
  const chance = (what: string) => 0.75 + 0.5 * randomOf(`${user} ${model} ${what}`)
  const perDay = chance(`day ${Math.floor(hour / dayMs)}`)
  const answers = Math.round(most * busy * perDay * chance(`answers ${hour}`))
  const refused = busy > 0.5 ? (profile.refused ?? 0) : 0
  if (answers === 0) return []
  const input = Math.round(answers * tokens[0] * chance(`input ${hour}`))
  const fromCache = Math.round(input * cached)
  const output = Math.round(answers * tokens[1] * chance(`output ${hour}`))
  return [
    {
      hour,
      user,
      subscription,
      model,
      keyId: '',
      payer: `rate=${rates[model]}`,
      answers,
      input,
      output,
      total: input + output,
      estimated: 0,
      ...{ prices: '', cost: null, cacheWrite: 0, weight: 0 },
      pricedInput: input - fromCache,
      pricedCached: fromCache,
      cached: fromCache,
      reasoning: Math.round(output * reasoning),
      refusals: Math.round(answers * refused * chance(`refused ${hour}`)),
    },
  ]
}

/** From 0 to 1, and always the same for the same text. */
function randomOf(text: string): number {
  return Number.parseInt(hash('sha256', text, 'hex').slice(0, 8), 16) / 2 ** 32
}
