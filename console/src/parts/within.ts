import { distance } from './time.tsx'

/**
 * The time since which refusals are known; `since` is the start of a service that is younger than the hour that it
 * remembers.
 */
export function within(since: string | undefined): string {
  return since === undefined
    ? 'within the last hour'
    : `since the start, ${distance(Date.parse(since))}`
}
