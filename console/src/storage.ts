const ofTab = open()

/** Whether the browser refuses the storage of this tab, as with all cookies blocked. */
export const isBlocked = ofTab === undefined

/** The storage of this tab; only in memory if the browser refuses it. */
export const storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> = ofTab ?? inMemory()

function open(): Storage | undefined {
  try {
    return sessionStorage
  } catch {
    return undefined
  }
}

function inMemory() {
  const items = new Map<string, string>()
  return {
    getItem: (name: string) => items.get(name) ?? null,
    setItem: (name: string, text: string) => void items.set(name, text),
    removeItem: (name: string) => void items.delete(name),
  }
}
