/** The rules for every request, and whether they were kept. */
import { setTimeout as delay } from 'node:timers/promises'
import { build, type Case } from './case.ts'
import { type Reply, send } from './client.ts'
import type { Served } from './lane.ts'
import type { Seat } from './world.ts'

/**
 * - `tokens`: what the model's server says it used for chat calls was counted, no more and no less; on the
 *   path of a chat call all that it used may be, whatever it takes the call for
 * - `spent`: no text for a key whose limit is spent, on any path
 * - `credential`: none for an identity token, a revoked key, or nobody
 * - `model`: none of a model that the ModelRef does not list, where the gateway reads the body
 * - `sent`: the body goes on as application/json where it is read, and without headers that could
 *   make a server read another request
 * - `fault`: no answer of 500 and above but those of the model's server, and 501 for a transfer-encoding
 */
export type Rule = 'tokens' | 'spent' | 'credential' | 'model' | 'sent' | 'fault'

export interface Verdict {
  readonly reply: Reply
  readonly served: readonly Served[]
  readonly counted: number
  /** The rule that was broken; undefined: none. */
  readonly broken?: { readonly rule: Rule; readonly detail: string } | undefined
}

/** The tokens of chat calls; only these are counted. */
export function chatTokens(served: readonly Served[]): number {
  return served.reduce((sum, { kind, tokens }) => (kind === 'chat' ? sum + tokens : sum), 0)
}

/**
 * The path alone decides what is counted, but a server may find the name of another operation in
 * the query. Of several requests on a connection, those of chat calls may be counted if it is clear
 * which response belongs to which.
 */
function mayBeCounted(heads: readonly string[], served: readonly Served[]): number | undefined {
  const isChat = heads.map((head) => /^\S+ \/v1\/chat\/completions[? ]/.test(head))
  if (!isChat.every(Boolean) && heads.length !== served.length) return undefined
  return served.reduce((sum, { tokens }, i) => (isChat[i] === false ? sum : sum + tokens), 0)
}

/**
 * After this request, Envoy, which has one worker thread, has noticed that the previous client
 * disconnected.
 */
async function roundTrip(seat: Seat, port: number): Promise<void> {
  const headers = { authorization: `Bearer ${seat.keys.good}` }
  const url = `http://127.0.0.1:${port}/${seat.name}/sim/v1/models`
  await (await fetch(url, { headers })).arrayBuffer()
}

/** The header line that the server should not have received. */
function oddHeader(head: string): string | undefined {
  const [first = '', ...lines] = head.toLowerCase().trimEnd().split('\r\n')
  const [method, target = ''] = first.split(' ')
  const override = lines.find((line) => overrides.test(line))
  if (override !== undefined) return override
  if (method !== 'post' || !bodyPath.test(target)) return undefined
  const labels = lines.filter((line) => line.startsWith('content-type:'))
  if (labels.join() !== 'content-type: application/json') return labels.join() || 'no content-type'
  return target.startsWith('/v1/chat') ? lines.find((line) => unwanted.test(line)) : undefined
}

const overrides = /^x-(?:http-method-override|original-url|rewrite-url):/
const bodyPath = /^\/v1\/(?:chat\/completions|completions|embeddings|responses|messages)(?:\?|$)/
const unwanted =
  /^(?:range|accept-charset):|^accept:(?!\s*$|\s*(?:\*\/\*|application\/json|text\/event-stream)\s*(?:$|[,;]))/

/** The gateway does not read their bodies, and no server but those of the fuzzer generates text for them. */
const unread = /^(?:files|batches|audio|images)(?:\/|$)|^responses\/[^/]+\/cancel$/

const settleMs = 1_500

/** Runs a case on a seat that nothing else uses. `meterBase` is the count before it. */
export async function judge(
  { meterBase, seat, port }: { meterBase: number; seat: Seat; port: number },
  it: Case,
): Promise<Verdict> {
  const [already, faults, asked] = [seat.served.length, seat.faults(), seat.heads.length]
  const isBusy = () => seat.open() > 0 && performance.now() - seat.activeAt() < 2_000
  const reply = await send(build(it, seat.name), { port, key: seat.keys[it.standing], isBusy })
  // The request of a disconnected client may still be running.
  if (reply.wasCut) await roundTrip(seat, port)
  while (isBusy()) await delay(10)
  const expected = () => chatTokens(seat.served.slice(already))
  const giveUpAt = performance.now() + settleMs
  let counted = (await seat.counted()) - meterBase
  const isRight = () =>
    counted === expected() ||
    counted === mayBeCounted(seat.heads.slice(asked), seat.served.slice(already))
  while (!isRight() && performance.now() < giveUpAt) {
    await delay(15)
    counted = (await seat.counted()) - meterBase
  }
  const served = seat.served.slice(already)
  const verdict = { reply, served, counted }
  const broken = (rule: Rule, detail: string) => ({ ...verdict, broken: { rule, detail } })
  const said = served
    .map(({ kind, model, tokens }) => `${kind} of ${model}, ${tokens} tokens`)
    .join('; ')
  if (served.length > 0 && it.standing !== 'good') {
    return broken(it.standing === 'spent' ? 'spent' : 'credential', said)
  }
  const foreign = served.find(
    ({ kind, model }) => model !== undefined && model !== 'sim' && !unread.test(kind),
  )
  if (foreign) return broken('model', said)
  // A client that disconnects before the usage is sent is not charged (README).
  if (!isRight() && !reply.wasCut) {
    return broken('tokens', `${counted} counted, ${said === '' ? 'no text' : said}`)
  }
  const odd = seat.heads.slice(asked).map(oddHeader).find(Boolean)
  if (odd !== undefined) return broken('sent', odd)
  const fault = reply.statuses.find((status) => status >= 500 && status !== 501)
  if (fault !== undefined && seat.faults() === faults) return broken('fault', `status ${fault}`)
  return verdict
}
