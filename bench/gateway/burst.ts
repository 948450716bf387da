/** A burst: many calls at once against room for a few, under a Subscription that counts and one that reserves. */

import { StartError } from '../../src/runtime/start-error.ts'
import { type MintOptions, mintKeys } from './mint-keys.ts'
import { bursts, modelName } from './sample-world.ts'

export interface Burst {
  /** As `spec.admission` has it. */
  readonly mode: string
  readonly calls: number
  readonly allowed: number
  /** Tokens that the answers reported, and the limit's tokens. */
  readonly used: number
  readonly limit: number
}

const calls = 250

/** Both, one after the other. Rejects with a StartError if calls are refused for another reason. */
export async function measureBursts(
  options: Omit<MintOptions, 'count'>,
): Promise<readonly Burst[]> {
  const measured: Burst[] = []
  for (const { mode, subscription, limit, tokens } of bursts) {
    const [key = ''] = await mintKeys({ ...options, count: 1, subscription })
    const call = () => ask(options, key, tokens)
    const answers = await Promise.all(Array.from({ length: calls }, call))
    const allowed = answers.filter((used) => used !== undefined)
    const used = allowed.reduce((sum, each) => sum + each, 0)
    measured.push({ mode, calls, allowed: allowed.length, used, limit })
  }
  return measured
}

/** The tokens of its answer, or undefined if a limit refused it. */
async function ask(
  { gateway, signal }: Pick<MintOptions, 'gateway' | 'signal'>,
  key: string,
  tokens: number,
): Promise<number | undefined> {
  const response = await fetch(`${gateway}/v1/chat/completions`, {
    method: 'POST',
    signal,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    // The first field tells the model server that it is one of these.
    body: JSON.stringify({ max_tokens: tokens, model: modelName, messages: [] }),
  })
  const text = await response.text()
  if (response.status === 200) return JSON.parse(text).usage.total_tokens
  if (response.status === 429) return undefined
  throw new StartError(`A call of the burst was answered ${response.status}: ${text.slice(0, 300)}`)
}
