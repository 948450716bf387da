import { getOrAdd } from '../formats/lists.ts'

/**
 * Concurrent calls with the same first argument share one run of `work`. It has the arguments of the first call, so
 * these must not depend on one caller, as its signal would. Results are not cached.
 */
export function createSingleFlight<Args extends readonly unknown[], Result>(
  work: (...args: Args) => Promise<Result>,
): (...args: Args) => Promise<Result> {
  const flights = new Map<unknown, Promise<Result>>()
  return (...args) => {
    const [key] = args
    return getOrAdd(flights, key, () => work(...args).finally(() => flights.delete(key)))
  }
}
