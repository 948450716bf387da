/** One chat call through the gateway, as any client makes it: with a key, and streamed. */

import { ApiError, cutOff, reach, refusalIn } from '../api.ts'

export interface ChatRequest {
  readonly key: string
  /** `<namespace>/<name>` of the ModelRef; the path names it. */
  readonly owner: string
  /** The id in `GET /v1/models`. */
  readonly model: string
  readonly prompt: string
  readonly maxTokens: number
}

export interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
}

export interface ChatAnswer {
  readonly usage: Usage | undefined
  /** The response headers that clients may use. */
  readonly headers: readonly (readonly [string, string])[]
  readonly ms: number
}

interface Chunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[]
  readonly usage?: Usage | null
  /** In place of the rest of the answer; servers write it in different forms. */
  readonly error?: unknown
}

const shownHeaders = /^(x-request-id|retry-after|x-ratelimit-.*|ratelimit.*)$/

/** Calls `onText` with each piece of the answer. Rejects with an ApiError, or when `signal` aborts. */
export async function chat(
  { key, owner, model, prompt, maxTokens }: ChatRequest,
  onText: (text: string) => void,
  signal: AbortSignal,
): Promise<ChatAnswer> {
  const from = performance.now()
  // On the model's own path, its server would get a published id unchanged.
  const path = model.startsWith('publishers/') ? '' : `/${owner}`
  const response = await reach(`${path}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    signal,
    body: JSON.stringify({
      model,
      messages: [{ role: 'user', content: prompt }],
      max_tokens: maxTokens,
      stream: true,
      stream_options: { include_usage: true },
    }),
  })
  if (!response.ok || response.body === null) throw await refusalIn(response)
  const type = response.headers.get('content-type')
  if (!type?.startsWith('text/event-stream')) {
    void response.body.cancel()
    const message = `The response is not a stream of events (${type ?? 'without a content type'}).`
    throw new ApiError(0, 'no_stream', message)
  }
  let usage: Usage | undefined
  let rest = ''
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { done, value = '' } = await reader.read().catch((error: unknown) => {
      if (signal.aborted) throw error
      throw new ApiError(0, 'interrupted', cutOff)
    })
    const lines = (rest + value).split('\n')
    rest = done ? '' : (lines.pop() ?? '')
    for (const line of lines) {
      const chunk = chunkOf(line)
      if (chunk?.error) {
        void reader.cancel()
        throw errorIn(chunk.error)
      }
      const text = chunk?.choices?.[0]?.delta?.content
      if (text) onText(text)
      usage = chunk?.usage ?? usage
    }
    if (done) break
  }
  const headers = [...response.headers].filter(([name]) => shownHeaders.test(name))
  return { usage, headers, ms: performance.now() - from }
}

function errorIn(error: unknown): ApiError {
  const { message } = error as { readonly message?: unknown }
  const text = message ?? (typeof error === 'string' ? error : JSON.stringify(error))
  return new ApiError(0, 'model_error', `The model responded with an error: ${text}`)
}

/** A `data:` line with a chunk; other lines are comments, the end, or unknown. */
function chunkOf(line: string): Chunk | undefined {
  if (!line.startsWith('data:')) return undefined
  try {
    return JSON.parse(line.slice(5))
  } catch {
    return undefined
  }
}
