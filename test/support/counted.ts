import type { Test } from 'tap'
import type { WrittenDocument } from './documents.ts'
import { type Gateway, subscriptions } from './gateway.ts'
import { poll } from './poll.ts'

/** Subscriptions with which `counts` tells these numbers of tokens from others. */
export function scales(...tokens: readonly number[]): readonly WrittenDocument[] {
  const limits = tokens.flatMap((each) => [each, each + 1]).filter((each) => each > 0)
  return subscriptions(Object.fromEntries(limits.map((each) => [`limit-${each}`, each])))
}

/**
 * Claims that `send` costs the holder of the key exactly this many tokens: a limit of that number
 * is reached, a limit higher by one is not. Sends twice, each time as a new user. `model` is the
 * model that `send` calls.
 */
export async function counts(
  t: Test,
  gateway: Gateway,
  tokens: number,
  send: (key: string) => Promise<unknown>,
  model = 'sim',
): Promise<void> {
  const words = `${tokens} tokens are counted`
  const above = await gateway.mint({ subscription: `limit-${tokens + 1}` })
  await send(above.key)
  if (tokens === 0) {
    await gateway.settled()
  } else {
    const at = await gateway.mint({ subscription: `limit-${tokens}` })
    await send(at.key)
    await poll(() => gateway.isSpent(at.key, model), words)
  }
  t.notOk(await gateway.isSpent(above.key, model), `${words}, and not one more`)
}
