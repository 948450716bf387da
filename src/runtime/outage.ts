/** An outage: something fails for a while. */

/** `onChange` is called with the cause when it begins to fail, and with undefined when it works again. */
export function createOutage<Cause>(onChange: (cause: Cause | undefined) => void) {
  let isOpen = false
  return {
    get isOpen(): boolean {
      return isOpen
    },
    /** Notes the result of an attempt; undefined: success. */
    note(cause: Cause | undefined): void {
      if (isOpen === (cause !== undefined)) return
      isOpen = !isOpen
      onChange(cause)
    },
  }
}
