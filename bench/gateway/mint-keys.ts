import { StartError } from '../../src/runtime/start-error.ts'

/** Where keys are created, by whom, and how many. */
export interface MintOptions {
  readonly gateway: string
  readonly token: string
  readonly count: number
  /** The subscription of the rows by default. */
  readonly subscription?: string
  readonly signal: AbortSignal
}

/** Creates ephemeral API keys through the gateway. Rejects with a StartError if one is refused. */
export async function mintKeys(options: MintOptions): Promise<readonly string[]> {
  const { gateway, token, count, subscription = 'bench', signal } = options
  const keys: string[] = []
  while (keys.length < count) {
    const response = await fetch(`${gateway}/v1/api-keys`, {
      method: 'POST',
      signal,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'bench', ephemeral: true, subscription }),
    })
    const text = await response.text()
    const key: unknown = response.status === 201 ? JSON.parse(text).key : undefined
    if (typeof key !== 'string') {
      throw new StartError(`The gateway made no key (${response.status}): ${text.slice(0, 300)}`)
    }
    keys.push(key)
  }
  return keys
}
