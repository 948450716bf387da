/** Traces of chats and agents at 1.5 times the limit, through Envoy: what is refused though it would have fitted. */

import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { policies, replay as replayAlone, type Span } from '../../../bench/traces/replay.ts'
import {
  makeTrace,
  modelMax,
  type Trace,
  type TracedRequest,
  users,
} from '../../../bench/traces/trace.ts'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { envoyPath } from '../../support/envoy-binary.ts'
import { meter } from '../../support/gateway.ts'
import { type Replicas, startReplicas } from '../../support/replicas.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../../support/valkey.ts'
import {
  type AdmittedRequest,
  accountWindows,
  sumOf,
  type WindowAccount,
} from '../../support/window-accounts.ts'
import { createWindowNames } from '../../support/window-names.ts'

const skip = skipValkey || (envoyPath() === undefined && 'no Envoy')
const minutes = Number(process.env.TRACE_MINUTES ?? 8)
/** What is refused before that is printed and not judged: nothing has been learned at first. */
const learnS = Number(process.env.TRACE_LEARN_S ?? 180)
/** Nor is the last minute: nobody fills the windows that the trace ends in. */
const spans: readonly Span[] = [
  [0, 240],
  [0, 60 * (minutes - 1)],
  [learnS, 60 * (minutes - 1)],
]
const overshootPercent = 25
/** Percent of the requests. */
const maxFalse = 8
const kinds = ['chat', 'agent'] as const
const traces = kinds.map((kind) => {
  return { kind, trace: makeTrace(kind, Number(process.env.TRACE_SEED ?? 1), 1.5, minutes) }
})

interface Run {
  readonly replicas: Replicas
  readonly journal: string
}

async function start(t: Test): Promise<Run> {
  const valkey = await startValkey(t)
  const owner = { groups: ['team'] }
  const journal = `${temporaryFolder(t)}/usage.jsonl`
  const replicas = await startReplicas(t, {
    count: 2,
    resources: (backendUrl) => [
      modelRef('sim', { backendUrl, output: { maxTokens: modelMax } }),
      accessPolicy('open', ['llm/sim'], owner),
      ...traces.map(({ kind, trace }) =>
        subscription(
          kind,
          owner,
          { 'llm/sim': [[trace.limit, `${trace.windowS}s`]] },
          { admission: { mode: 'reserve', overshootPercent } },
        ),
      ),
      meter,
    ],
    tokens: Array.from({ length: users }, (_, i) => `token-u${i},u${i},${i},team`),
    env: { REDIS_URL: valkey.url, METER_PATHS: 'messages', USAGE_JOURNAL: journal },
  })
  return { replicas, journal }
}

function post(
  { url }: Replicas,
  path: string,
  credential: string,
  body: object,
  { label, signal }: { label?: string; signal?: AbortSignal } = {},
) {
  return fetch(url + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${credential}`,
      ...(label && { 'x-sim-label': label }),
    },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  })
}

interface Refusal {
  readonly at: number
  readonly window: string
  readonly need: number
}

/** Seconds of whole answers: as the trace has them, and as they were. */
interface Pace {
  traced: number
  took: number
  /** The latest request. */
  late: number
}

/** Replays a trace in real time with one key for each user. */
async function replay({ replicas }: Run, kind: string, requests: readonly TracedRequest[]) {
  const keys = await Promise.all(
    Array.from({ length: users }, async (_, i) => {
      const asked = { name: kind, subscription: kind }
      const minted = await post(replicas, '/v1/api-keys', `token-u${i}`, asked)
      return ((await minted.json()) as { key: string }).key
    }),
  )
  const admitted: AdmittedRequest[] = []
  const refusals: Refusal[] = []
  const pace: Pace = { traced: 0, took: 0, late: 0 }
  const nameWindow = createWindowNames(10_000)
  let broken = 0

  async function send(request: TracedRequest, label: string): Promise<void> {
    const { at, user, bytes, input, output, part, fate, maxOutput = modelMax } = request
    const isFailed = fate === 'failed'
    const wanted = Math.max(1, Math.round(output * part))
    const hangUp = new AbortController()
    const { signal } = hangUp
    const sim = {
      ...{ words: output, promptTokens: input },
      delayMs: Math.round(1_000 * request.firstTokenS),
      chunkDelayMs: 1_000 / request.tokensPerS,
      ...(fate === 'no_usage' && { usage: 'none' }),
      ...(isFailed && { status: 500 }),
    }
    const body = {
      ...{ model: 'sim', stream: true, max_tokens: maxOutput, sim },
      messages: [{ role: 'user', content: 'x'.repeat(Math.max(1, bytes - 200)) }],
    }
    const begin = performance.now()
    const key = keys[user] as string
    const answer = await post(replicas, '/v1/messages', key, body, { label, signal })
    const { headers, status } = answer
    const window = nameWindow(`${user}`, headers.get('anthropic-ratelimit-tokens-reset'))
    if (status !== 200) {
      await answer.text()
      if (status === 429) refusals.push({ at, window, need: isFailed ? 0 : input + wanted })
      else if (!isFailed) throw new Error(`${status}`)
      return
    }
    const most = Number(headers.get('x-tollgate-max-output-tokens') ?? maxOutput)
    admitted.push({ label, id: headers.get('x-request-id') ?? '', window, most })
    let received = 0
    try {
      for await (const chunk of answer.body ?? []) {
        const text = Buffer.from(chunk).toString()
        received += text.match(/"type":"text_delta"/g)?.length ?? 0
        if (received >= wanted && part < 1) hangUp.abort()
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
    if (part < 1 || most < output) return
    pace.traced += request.firstTokenS + output / request.tokensPerS
    pace.took += (performance.now() - begin) / 1_000
  }

  const startedAt = performance.now()
  const sent: Promise<void>[] = []
  for (const [i, request] of requests.entries()) {
    const waitMs = startedAt + 1_000 * request.at - performance.now()
    if (waitMs > 0) await delay(waitMs)
    pace.late = Math.max(pace.late, -waitMs / 1_000)
    sent.push(
      send(request, `${kind} ${i}`).catch(() => {
        broken += 1
      }),
    )
  }
  await Promise.all(sent)
  return { admitted, refusals, broken, pace }
}

/** Of the requests between two times, how many percent were refused though their windows had room in the end. */
function falseOf(
  windows: ReadonlyMap<string, WindowAccount>,
  refusals: readonly Refusal[],
  { limit, requests }: Trace,
  [from, to]: Span,
) {
  const isJudged = ({ at }: { readonly at: number }) => at >= from && at < to
  const left = new Map([...windows].map(([window, { produced }]) => [window, limit - produced]))
  const fitting = refusals.filter(isJudged).filter(({ window, need }) => {
    const room = left.get(window) ?? limit
    if (need <= room) left.set(window, room - need)
    return need <= room
  })
  return (100 * fitting.length) / requests.filter(isJudged).length
}

t.test('few requests of a trace are refused falsely', { skip }, async (t) => {
  const run = await start(t)
  const replayed = await Promise.all(
    traces.map(({ kind, trace }) => replay(run, kind, trace.requests)),
  )
  await Promise.all(
    traces.map(async ({ kind, trace }, i) => {
      const { limit, requests } = trace
      const { admitted, refusals, broken, pace } = replayed[i] as (typeof replayed)[number]
      const windows = await accountWindows(admitted, run.journal, run.replicas.model)
      const percents = spans.map((span) => falseOf(windows, refusals, trace, span))
      const [cold, whole, learned] = percents as [number, number, number]
      const policy = policies.ours(overshootPercent / 100)
      const alone = spans.map((span) => replayAlone(trace, policy, 0, span).falsePercent)
      const show = (each: readonly number[]) => each.map((one) => one.toFixed(1)).join(', ')
      t.comment(
        `${kind}: ${requests.length} requests, ${refusals.length} refused; falsely ${show(percents)} % of those ` +
          `in seconds ${spans.map((span) => span.join(' to ')).join(', ')}; by the decision alone ${show(alone)} %`,
      )
      const fullest = [...windows.values()].sort((a, b) => b.charged - a.charged)[0]
      t.comment(
        `${kind}: ${JSON.stringify(sumOf(windows.values()))} tokens, of those unreported U, exceeded X; of ` +
          `${windows.size} windows the fullest ${JSON.stringify(fullest)}, limit ${limit}; whole ` +
          `answers took ${(pace.took / pace.traced).toFixed(2)} of their times, the latest request was ` +
          `${pace.late.toFixed(2)} s late, ${broken} broken`,
      )
      t.ok(broken <= requests.length / 100, `${broken} broken`)
      t.ok(learned <= maxFalse, `${kind}: ${learned} % refused falsely, ${cold} at first, ${whole}`)
      const bound = Math.floor(limit * (1 + overshootPercent / 100))
      for (const [window, { charged, produced, unreported, exceeded }] of windows) {
        t.ok(charged <= bound, `${kind}, ${window}: ${charged} charged, ${bound} promised`)
        const most = bound + unreported + exceeded
        t.ok(produced <= most, `${kind}, ${window}: ${produced} produced, ${most} at most`)
      }
    }),
  )
})
