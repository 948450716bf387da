/**
 * ioredis declares a class that extends String. From then on V8 13.6 (Node 24) looks up every method of a string
 * generically, in optimized code too: `charCodeAt` takes 17 ns instead of 3, and a Check reads hundreds of characters.
 * V8 recovers when warm code reads a property of an object with this prototype, which a primitive string is not.
 */

/** Number of reads, more than V8 needs to record the types in a function. */
const reads = 1_000

/** Call it right after ioredis is loaded. Code that runs in between stays slow. */
export function warmUpStringMethods(): void {
  const object = new String('')
  let method: unknown
  for (let i = 0; i < reads; i += 1) method = object.charCodeAt
  if (method === undefined) throw new Error('strings have no methods')
}
