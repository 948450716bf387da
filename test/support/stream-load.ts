/** Parallel streams of several keys for some time, and the usage of each by the window that admitted it. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from './random.ts'
import type { AdmittedRequest } from './window-accounts.ts'
import { createWindowNames } from './window-names.ts'

export interface StreamLoad {
  readonly url: string
  readonly keys: readonly string[]
  /** Concurrent streams per key. */
  readonly atOnce: number
  readonly forMs: number
  /** Words of an answer, and the range of its duration. */
  readonly words: readonly [number, number]
  readonly takesMs: readonly [number, number]
  /** Percentage of streams that their client aborts. */
  readonly hangUps: number
  /** Messages by default, whose clients see their windows. */
  readonly operation?: 'messages' | 'chat'
  /** How long a client waits after a refusal; 200 ms by default. */
  readonly retryMs?: number
  readonly random: Random
  /** Called for each stream that is admitted. */
  readonly onAdmitted?: (request: AdmittedRequest) => void
}

export interface Loaded {
  readonly allowed: number
  readonly refused: number
  readonly hungUp: number
  /** Requests without a response of the gateway or of the model. */
  readonly broken: number
  /** Maximum number of tokens that clients received for requests admitted by one window of one key. */
  readonly fullest: number
  readonly windows: number
}

/** Windows of these loads last seconds. */
const windowsApartMs = 3_000
/** Each event of an answer with text is one token. */
const textEvents = { messages: /"type":"text_delta"/g, chat: /"delta":\{"content":/g }
const paths = { messages: '/v1/messages', chat: '/v1/chat/completions' }
let streams = 0

export async function runStreams(load: StreamLoad): Promise<Loaded> {
  const { keys, forMs, atOnce, random, operation = 'messages', retryMs = 200 } = load
  const found = { allowed: 0, refused: 0, hungUp: 0, broken: 0 }
  /** Tokens by key and end of the window. */
  const windows = new Map<string, number>()
  const nameWindow = createWindowNames(windowsApartMs)
  const endAt = performance.now() + forMs
  const between = ([low, high]: readonly [number, number]) => low + random.below(high - low + 1)

  async function askOnce(key: string): Promise<void> {
    const words = between(load.words)
    const chunkDelayMs = Math.max(1, Math.round(between(load.takesMs) / words))
    const hangsUpAfter = random.below(100) < load.hangUps ? random.below(words) : undefined
    const controller = new AbortController()
    streams += 1
    const label = `stream ${streams}`
    const response = await fetch(load.url + paths[operation], {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${key}`,
        ...(load.onAdmitted && { 'x-sim-label': label }),
      },
      body: JSON.stringify({
        ...{ model: 'sim', stream: true, max_tokens: load.words[1] },
        messages: [{ role: 'user', content: 'Hi' }],
        sim: { words, chunkDelayMs },
      }),
      signal: controller.signal,
    })
    if (response.status !== 200) {
      await response.text()
      if (response.status !== 429) throw new Error(`${response.status}`)
      found.refused += 1
      return void (await delay(retryMs))
    }
    const { headers } = response
    const window = nameWindow(key, headers.get('anthropic-ratelimit-tokens-reset'))
    found.allowed += 1
    const most = Number(headers.get('x-tollgate-max-output-tokens') ?? load.words[1])
    load.onAdmitted?.({ label, id: headers.get('x-request-id') ?? '', window, most })
    // The prompt is one token.
    let tokens = 1
    try {
      for await (const chunk of response.body ?? []) {
        tokens += Buffer.from(chunk).toString().match(textEvents[operation])?.length ?? 0
        if (hangsUpAfter === undefined || tokens <= hangsUpAfter) continue
        found.hungUp += 1
        controller.abort()
      }
    } catch (error) {
      if (!controller.signal.aborted) throw error
    } finally {
      windows.set(window, tokens + (windows.get(window) ?? 0))
    }
  }

  async function client(key: string): Promise<void> {
    while (performance.now() < endAt) {
      try {
        await askOnce(key)
      } catch {
        found.broken += 1
        await delay(200)
      }
    }
  }

  const clients = keys.flatMap((key) => Array.from({ length: atOnce }, () => client(key)))
  await Promise.all(clients)
  return { ...found, fullest: Math.max(0, ...windows.values()), windows: windows.size }
}
