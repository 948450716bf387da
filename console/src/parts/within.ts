import { distance } from './time.tsx'

/** Since when refusals are known, `since` being the start of a service that is younger than the hour for which it remembers them. */
export function within(since: string | undefined): string {
  return since === undefined
    ? 'within the last hour'
    : `since the start, ${distance(Date.parse(since))}`
}
