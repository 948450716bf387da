/** Runs cases on all seats for a time. A case that breaks a rule is repeated alone, and reduced. */
import { setTimeout as delay } from 'node:timers/promises'
import { build, type Case, describe, drawCase } from './case.ts'
import type { CorpusEntry } from './corpus.ts'
import { type Draft, render } from './draft.ts'
import { chatTokens, judge, type Rule, type Verdict } from './judge.ts'
import type { Seat, World } from './world.ts'

export interface Find {
  readonly variant: string
  readonly rule: Rule
  readonly detail: string
  readonly case: Case
  readonly draft: Draft
  readonly lane: string
  readonly verdict: Verdict
}

export interface CampaignOptions {
  readonly world: World
  readonly corpus: readonly CorpusEntry[]
  readonly seed: number
  /** How long to generate cases, after those of the corpus; or how many. */
  readonly seconds: number
  readonly most?: number
  readonly onFind: (find: Find) => void
  /** Only these cases, on every server, without generated ones. */
  readonly only?: readonly Case[]
}

export interface Score {
  readonly cases: number
  /** Cases in which a model generated text. */
  readonly withText: number
  /** The tokens of these cases, all counted. */
  readonly tokens: number
  /** Cases that broke a rule once, but not when repeated alone. */
  readonly unconfirmed: readonly string[]
  /** Responses by status, the first of each case. */
  readonly statuses: ReadonlyMap<number, number>
}

export async function campaign(options: CampaignOptions): Promise<Score> {
  const { world, corpus, seed, seconds, most = Number.POSITIVE_INFINITY, onFind, only } = options
  const { port } = world.gateway
  const endsAt = performance.now() + seconds * 1_000
  const statuses = new Map<number, number>()
  const unconfirmed: string[] = []
  const seen = new Map<string, number>()
  let [cases, withText, tokens, drawn] = [0, 0, 0, 0]
  const turns = new Map<string, Promise<unknown>>()

  /** Runs one action at a time for each variant. */
  const alone = <T>(variant: string, action: () => Promise<T>): Promise<T> => {
    const turn = (turns.get(variant) ?? Promise.resolve()).then(action)
    turns.set(
      variant,
      turn.catch(() => {}),
    )
    return turn
  }

  /** Repeats a case alone. The count is exact once a plain call after it has been counted. */
  const retry = async (seat: Seat, it: Case): Promise<Verdict> => {
    await plainCall(seat, port)
    const before = await seat.counted()
    const verdict = await judge({ meterBase: before, seat, port }, it)
    const { rule } = verdict.broken ?? {}
    if (rule === 'tokens') {
      const plain = await plainCall(seat, port)
      const counted = (await seat.counted()) - before - plain
      if (counted === chatTokens(verdict.served)) return { ...verdict, counted, broken: undefined }
    }
    // A fault may be caused by a busy machine, so it must occur again.
    if (rule === 'fault') return judge({ meterBase: await seat.counted(), seat, port }, it)
    return verdict
  }

  const reduce = async (variant: string, it: Case, first: Verdict) => {
    const seat = world.quiet.get(variant)
    if (seat === undefined) throw new Error(`no seat for ${variant}`)
    let smallest = it
    let verdict = await retry(seat, it)
    for (let again = 0; again < 2 && verdict.broken === undefined; again += 1) {
      verdict = await retry(seat, it)
    }
    const { rule } = verdict.broken ?? {}
    if (rule === undefined) {
      const { rule, detail } = first.broken ?? {}
      unconfirmed.push(`${variant}: ${rule}: ${detail}; ${describe(it)}`)
      return
    }
    for (let i = it.changes.length - 1; i >= 0; i -= 1) {
      const changes = smallest.changes.filter((_, at) => at !== i)
      const less = await retry(seat, { ...smallest, changes })
      if (less.broken?.rule !== rule) continue
      smallest = { ...smallest, changes }
      verdict = less
    }
    const detail = verdict.broken?.detail ?? ''
    const draft = build(smallest, seat.name)
    onFind({ variant, rule, detail, case: smallest, draft, lane: seat.name, verdict })
  }

  const run = async (seat: Seat, next: () => Case | undefined) => {
    let meterBase = await seat.counted()
    for (let it = next(); it !== undefined; it = next()) {
      const verdict = await judge({ meterBase, seat, port }, it)
      meterBase += verdict.counted
      cases += 1
      if (verdict.served.length > 0) withText += 1
      tokens += verdict.counted
      const status = verdict.reply.statuses[0] ?? 0
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      const { broken } = verdict
      if (broken === undefined) continue
      const names = it.changes.map(({ name }) => name).sort()
      const signature = [seat.variant, broken.rule, it.entry.name, ...names].join(' ')
      const times = (seen.get(signature) ?? 0) + 1
      seen.set(signature, times)
      const same = it
      if (times <= 2) await alone(seat.variant, () => reduce(seat.variant, same, verdict))
    }
  }

  const queues = new Map<string, Case[]>()
  for (const { variant } of world.seats) {
    // First the cases that once found a bug, with each standing, on every server.
    queues.set(variant, [...(only ?? replays(corpus))])
  }
  await Promise.all(
    world.seats.map((seat) =>
      run(seat, () => {
        const replay = queues.get(seat.variant)?.shift()
        if (replay !== undefined) return replay
        if (only !== undefined || drawn >= most || performance.now() > endsAt) return undefined
        drawn += 1
        return drawCase(corpus, seed, drawn)
      }),
    ),
  )
  return { cases, withText, tokens, unconfirmed, statuses }
}

function replays(corpus: readonly CorpusEntry[]): readonly Case[] {
  const everybody = ['good', 'spent', 'token'] as const
  return corpus.flatMap((entry) => everybody.map((standing) => ({ entry, changes: [], standing })))
}

/** Makes a valid call. Returns its tokens once they, and all before them, are counted. */
async function plainCall(seat: Seat, port: number): Promise<number> {
  const before = await seat.counted()
  const body = '{"model":"sim","messages":[{"role":"user","content":"Hi"}]}'
  const headers = { authorization: `Bearer ${seat.keys.good}`, 'content-type': 'application/json' }
  const url = `http://127.0.0.1:${port}/${seat.name}/sim/v1/chat/completions`
  const answer = await fetch(url, { method: 'POST', headers, body })
  const text = await answer.text()
  if (answer.status !== 200) {
    throw new Error(`${seat.variant} answers a plain call with ${answer.status}: ${text}`)
  }
  const tokens: number = JSON.parse(text).usage.total_tokens
  const giveUpAt = performance.now() + 20_000
  let [counted, since] = [before, performance.now()]
  // Waits until exactly these tokens are counted; or more, from an earlier case, and the count no
  // longer changes.
  while (counted !== before + tokens) {
    const now = performance.now()
    if (now > giveUpAt) throw new Error(`${seat.variant}: a plain call is not counted`)
    if (counted > before + tokens && now - since > 1_000) break
    await delay(10)
    const next = await seat.counted()
    if (next !== counted) [counted, since] = [next, now]
  }
  return tokens
}

/** A find as lines, for a comment of the test. */
export function show(
  { variant, rule, detail, case: it, draft, verdict }: Find,
  file?: string,
): string {
  const bytes = render(draft, it.standing === 'none' ? undefined : '{{key}}').toString('latin1')
  const lines = [
    `FIND ${variant}: ${rule}: ${detail}`,
    `  ${describe(it)}${file === undefined ? '' : `, kept as ${file}`}`,
    `  answered ${verdict.reply.statuses.join(', ')}; ${draft.transport}`,
    `  ${JSON.stringify(bytes.slice(0, 1_200))}`,
  ]
  return lines.join('\n')
}
