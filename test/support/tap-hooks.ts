/**
 * What `async_hooks` is in tap's bundle. By Node's own hooks tap follows each promise and handle of a process, to know whose test
 * an error is that nobody caught, which is a sixth of the CPU time of a file; the context of an AsyncLocalStorage costs nothing.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

interface Hooks {
  init(id: number, type: string, parentId: number): void
}

const scope = new AsyncLocalStorage<number>()
let created = 0
let hooks: Hooks | undefined

/** The id of the test whose code runs; 0 outside of tests. */
export function executionAsyncId(): number {
  return scope.getStore() ?? 0
}

/** Hooks that are told only of tests. */
export function createHook(given: Hooks) {
  return {
    enable() {
      hooks = given
    },
    disable() {
      hooks = undefined
    },
  }
}

/** What tap runs a test in. */
export class AsyncResource {
  readonly #id: number

  constructor(type: string) {
    created += 1
    this.#id = created
    hooks?.init(this.#id, type, executionAsyncId())
  }

  runInAsyncScope<Args extends unknown[], Result>(
    act: (...args: Args) => Result,
    of: unknown,
    ...args: Args
  ): Result {
    return scope.run(this.#id, () => Reflect.apply(act, of, args))
  }

  /** What a test has begun may go on after it, and its errors are then of the test around it: the id stays known. */
  emitDestroy(): this {
    return this
  }
}
