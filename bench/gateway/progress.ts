/** Shows progress: on a terminal as one changing line, otherwise as separate lines. */

const clearLine = '\r\u001b[K'
/** Without a terminal, a line for each tenth. */
const lines = 10

export function createProgress(to: NodeJS.WriteStream) {
  let lastWritten = -1
  const clear = (): void => void (to.isTTY && to.write(clearLine))
  return {
    /** Removes the changing line. */
    clear,
    line(text: string): void {
      clear()
      to.write(`${text}\n`)
    },
    run(over: number, of: number, what: string): void {
      const text = `${Math.floor((100 * over) / of)} %  ${what}`
      if (to.isTTY) to.write(`${clearLine}${text.slice(0, to.columns - 1)}`)
      else if (what !== '' && lastWritten !== Math.floor((lines * over) / of)) to.write(`${text}\n`)
      lastWritten = Math.floor((lines * over) / of)
    },
  }
}
