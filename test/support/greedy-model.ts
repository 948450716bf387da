import http from 'node:http'
import type { AddressInfo } from 'node:net'
import root from 'tap'

type Body = Record<string, unknown>

/** A request as the server has understood it. */
export interface Answered {
  readonly body: Body
  readonly choices: number
  /** Output tokens of each answer. */
  readonly each: number
  readonly totalTokens: number
}

/** A model server whose answers are as long, and as many, as the body allows. */
export interface GreedyModel {
  readonly url: string
  readonly answered: Answered[]
}

/** For an answer without a maximum. */
const freely = 9_500
/** Less than the estimate of any request, so that only ceilings are compared. */
const input = 5

/** The field of the operation first, then fields of other servers. */
const maxima: Readonly<Record<string, readonly string[]>> = {
  chat: ['max_completion_tokens', 'max_tokens'],
  messages: ['max_tokens'],
  responses: ['max_output_tokens'],
  completions: ['max_tokens'],
}
const counts = ['n', 'best_of', 'n_cmpl', 'candidate_count', 'num_return_sequences']

/** Starts one for a whole test file. Without a maximum each answer has 9,500 tokens. */
export async function startGreedyModel(): Promise<GreedyModel> {
  const answered: Answered[] = []
  const server = http.createServer(async (request, response) => {
    const chunks: Buffer[] = await request.toArray()
    response.setHeader('content-type', 'application/json')
    if (request.method !== 'POST') return void response.end('{"data":[]}')
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Body
    const operation = /(chat|messages|responses|completions)/.exec(request.url ?? '')?.[1] ?? ''
    const names = maxima[operation] ?? []
    const each = names.map((name) => Number(body[name])).find((max) => max > 0) ?? freely
    const prompts = Array.isArray(body.prompt) ? body.prompt.length : 1
    const choices = prompts * Math.max(1, ...counts.map((name) => Number(body[name] ?? 1)))
    // A server that fails before it answers.
    if (body.fails) return void request.socket.destroy()
    const output = choices * each
    answered.push({ body, choices, each, totalTokens: input + output })
    response.end(JSON.stringify(toResult(operation, output)))
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  root.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, answered }
}

function toResult(operation: string, output: number): object {
  if (operation === 'messages' || operation === 'responses') {
    const total = operation === 'responses' && { total_tokens: input + output }
    return { usage: { input_tokens: input, output_tokens: output, ...total } }
  }
  const parts = { prompt_tokens: input, completion_tokens: output }
  return { usage: { ...parts, total_tokens: input + output } }
}
