import type { Test } from 'tap'
import type { Gateway } from './gateway.ts'
import { poll } from './poll.ts'
import { type RawRequest, sendRaw, toBytes } from './raw-http.ts'

/**
 * Sends one request with a key whose limit is a single token and claims its status. After a 200 the
 * usage must be counted; after any other status the model must not have received a chat request.
 */
export async function neverFree(
  t: Test,
  gateway: Gateway,
  status: number,
  request: RawRequest,
  title: string = request.path,
): Promise<void> {
  const { key } = await gateway.mint({ subscription: 'one' })
  const headers = [`authorization: Bearer ${key}`, ...(request.headers ?? [])]
  const before = await chats(gateway)
  const answer = await sendRaw(gateway.port, toBytes({ ...request, headers }))
  t.equal(answer.status, status, title)
  if (answer.status === 200) await poll(() => gateway.isSpent(key), `${title} is counted`)
  else t.equal(await chats(gateway), before, `${title} does not reach the model`)
}

async function chats({ model }: Gateway): Promise<number> {
  return (await model.tally()).requests['/v1/chat/completions'] ?? 0
}
