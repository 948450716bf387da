/** Times in the reader's zone, with UTC on hover. */

const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' })

const units = [
  ['year', 365 * 86_400],
  ['month', 30 * 86_400],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const

/** `in 3 days`, `2 min ago`. */
export function distance(at: number, now = Date.now()): string {
  const seconds = Math.round((at - now) / 1_000)
  const [unit, length] = units.find(([, each]) => Math.abs(seconds) >= each) ?? units[5]
  return relative.format(Math.round(seconds / length), unit).replaceAll('.', '')
}

/** `at` is RFC 3339. */
export function Time({ at, isDistance }: { readonly at: string; readonly isDistance?: boolean }) {
  const ms = Date.parse(at)
  const utc = `${at.replace('T', ' ').replace('Z', '')} UTC`
  return (
    <time dateTime={at} title={isDistance ? `${full.format(ms)}; ${utc}` : utc}>
      {isDistance ? distance(ms) : full.format(ms)}
    </time>
  )
}
