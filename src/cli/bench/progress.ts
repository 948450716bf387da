/** What is going on, for a person who waits: on a terminal one line that changes, else lines. */

export interface Progress {
  line(text: string): void
  run(over: number, of: number, what: string): void
  /** Takes the line away that changes. */
  clear(): void
}

const CLEAR_LINE = '\r\u001b[K'
/** Where nothing can change, a line for each tenth. */
const LINES = 10

export function createProgress(to: NodeJS.WriteStream): Progress {
  let lastTold = -1
  const clear = (): void => void (to.isTTY && to.write(CLEAR_LINE))
  return {
    clear,
    line(text) {
      clear()
      to.write(`${text}\n`)
    },
    run(over, of, what) {
      const text = `${Math.floor((100 * over) / of)} %  ${what}`
      if (to.isTTY) to.write(`${CLEAR_LINE}${text.slice(0, to.columns - 1)}`)
      else if (what !== '' && lastTold !== Math.floor((LINES * over) / of)) to.write(`${text}\n`)
      lastTold = Math.floor((LINES * over) / of)
    },
  }
}
