/**
 * Replaces `async_hooks` in tap's bundle. With Node's own hooks, tap follows each promise and handle of a process to
 * assign uncaught errors to tests, which is a sixth of the CPU time of a file; the context of an AsyncLocalStorage
 * costs nothing.
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

/** Hooks that are called for tests only. */
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

/** The resource in which tap runs a test. */
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

  /** A test's work may outlive it, and its errors then belong to the test around it: the id stays known. */
  emitDestroy(): this {
    return this
  }
}
