/** An outage: something fails for a while. */

/** `onChange` is called with the cause when the failure begins or changes, and with undefined when it ends. */
export function createOutage<Cause>(onChange: (cause: Cause | undefined) => void) {
  let isOpen = false
  let lastWay: unknown
  return {
    get isOpen(): boolean {
      return isOpen
    },
    /**
     * Notes the result of an attempt: its cause of failure, or undefined for a success. Causes with the same `way`
     * count as one.
     */
    note(cause: Cause | undefined, way?: unknown): void {
      if (isOpen === (cause !== undefined) && (!isOpen || lastWay === way)) return
      isOpen = cause !== undefined
      lastWay = way
      onChange(cause)
    },
  }
}
