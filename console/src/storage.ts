/** The storage of this tab; only in memory if the browser refuses it, as with all cookies blocked. */
export const storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> = open()

function open() {
  try {
    return sessionStorage
  } catch {
    const items = new Map<string, string>()
    return {
      getItem: (name: string) => items.get(name) ?? null,
      setItem: (name: string, text: string) => void items.set(name, text),
      removeItem: (name: string) => void items.delete(name),
    }
  }
}
