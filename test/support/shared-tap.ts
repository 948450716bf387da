/** Replaces `tap` for test files that share a process: each file has a test of its own, in place of the root. */
import root, { Test } from 'tap'

let current: Test

// It lasts as long as the process; each file has its own limit.
root.setTimeout(0)

/** Creates the test for the next file, which `load` imports; `tap` in its modules is this test. */
export function beginFile(name: string, limitMs: number, load: () => Promise<unknown>): Test {
  current = new Test({ name, timeout: limitMs, cb: load }) as Test
  return current
}

export const test = (...args: unknown[]): unknown => Reflect.apply(current.test, current, args)

/** The test of the file that runs. */
const t = new Proxy({} as Test, {
  get(_, name) {
    const value = Reflect.get(current, name)
    return typeof value === 'function' ? value.bind(current) : value
  },
  set: (_, name, value) => Reflect.set(current, name, value),
})

export { t }
// biome-ignore lint/style/noDefaultExport: as tap has
export default t
