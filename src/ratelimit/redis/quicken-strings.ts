/**
 * ioredis declares a class that extends String. From then on V8 13.6 (Node 24) looks up every method of a
 * string by its generic way, in optimized code too: `charCodeAt` takes 17 ns instead of 3, and a Check
 * reads hundreds of characters. V8 mends that when code that has run some times reads a property of an
 * object with this prototype; a primitive string is none.
 */

/** More than V8 needs to remember what a function has met. */
const reads = 1_000

/** To be called once ioredis is loaded. Code that has run between stays slow. */
export function quickenStrings(): void {
  const object = new String('')
  let method: unknown
  for (let i = 0; i < reads; i += 1) method = object.charCodeAt
  if (method === undefined) throw new Error('strings have no methods')
}
