/** Counted tokens according to the service's metrics. */

export interface Meter {
  /** The tokens of a model `<namespace>/<name>`, from a scrape that began after the call. */
  tokens(model: string): Promise<number>
}

/** Callers share the next scrape while one is running. */
export function createMeter(url: string): Meter {
  let running: Promise<unknown> = Promise.resolve()
  let next: Promise<ReadonlyMap<string, number>> | undefined
  const fresh = () => {
    next ??= running.then(() => {
      const scrape = read(url)
      running = scrape.catch(() => {})
      next = undefined
      return scrape
    })
    return next
  }
  return { tokens: async (model) => (await fresh()).get(model) ?? 0 }
}

async function read(url: string): Promise<ReadonlyMap<string, number>> {
  // A new connection, because the server may close an idle one just as it is reused.
  const text = await (await fetch(url, { headers: { connection: 'close' } })).text()
  const tokens = new Map<string, number>()
  for (const [, labels = '', value] of text.matchAll(/^authorized_hits_total\{(.*)\} (\S+)$/gm)) {
    const model = /(?:^|,)model="([^"]*)"/.exec(labels)?.[1] ?? ''
    tokens.set(model, (tokens.get(model) ?? 0) + Number(value))
  }
  return tokens
}
