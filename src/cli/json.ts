/** What --json prints. */
export function toJson(value: object): string {
  return JSON.stringify(value, null, 2)
}
