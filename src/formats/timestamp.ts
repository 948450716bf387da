/** An instant (milliseconds since the epoch) in RFC 3339: UTC with `Z`, whole seconds. */
export function toTimestamp(instant: number): string {
  return `${new Date(instant).toISOString().slice(0, 19)}Z`
}

/** The first whole second that is not before an end (milliseconds since the epoch): nothing is open by then. */
export function toEndTimestamp(instant: number): string {
  return toTimestamp(Math.ceil(instant / 1_000) * 1_000)
}
