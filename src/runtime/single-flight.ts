/**
 * Concurrent calls with the same first argument share one run of `work`, which has the arguments of the first of them:
 * so these must not end with one caller, as its signal would. What a run came to is not remembered.
 */
export function createSingleFlight<Args extends readonly unknown[], Result>(
  work: (...args: Args) => Promise<Result>,
): (...args: Args) => Promise<Result> {
  const flights = new Map<unknown, Promise<Result>>()
  return (...args) => {
    const [key] = args
    const known = flights.get(key)
    if (known !== undefined) return known
    const flight = work(...args).finally(() => flights.delete(key))
    flights.set(key, flight)
    return flight
  }
}
