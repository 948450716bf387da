/** An instant (milliseconds since the epoch) in RFC 3339: UTC with `Z`, whole seconds. */
export function toTimestamp(instant: number): string {
  return `${new Date(instant).toISOString().slice(0, 19)}Z`
}
