/** Calls between a process and its child, over the channel between them. */

/** Functions by name, called with the arguments that were sent; may throw or reject. */
export type Handlers = Readonly<Record<string, (...args: never[]) => unknown>>

export type Link = ReturnType<typeof createLink>

/** A message: a call, with a number if it needs an answer; or an answer. */
type Message =
  | { readonly to: string; readonly args: readonly unknown[]; readonly id?: number }
  | { readonly re: number; readonly answer?: unknown; readonly error?: string }

interface Waiting {
  resolve(answer: unknown): void
  reject(error: Error): void
  readonly timer: NodeJS.Timeout
}

/**
 * `send` must never throw. `onFault` is called with errors of handlers whose result is not awaited.
 */
export function createLink(
  send: (message: object) => void,
  handlers: Handlers,
  onFault: (error: unknown) => void,
) {
  const waiting = new Map<number, Waiting>()
  let lastId = 0

  async function handle({ to, args, id }: Extract<Message, { to: string }>): Promise<void> {
    try {
      const handler = handlers[to] as ((...args: readonly unknown[]) => unknown) | undefined
      if (handler === undefined) throw new Error(`nobody answers ${to}`)
      const answer = await handler(...args)
      if (id !== undefined) send({ re: id, answer })
    } catch (error) {
      if (id === undefined) onFault(error)
      else send({ re: id, error: String(error) })
    }
  }

  return {
    /** Rejects if the other side throws, is gone, or has not answered within `timeoutMs`. */
    call<Answer>(name: string, args: readonly unknown[], timeoutMs: number): Promise<Answer> {
      lastId += 1
      const id = lastId
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(id)
          reject(new Error(`no answer to ${name} within ${timeoutMs} ms`))
        }, timeoutMs)
        timer.unref()
        waiting.set(id, { resolve: resolve as Waiting['resolve'], reject, timer })
        send({ to: name, args, id })
      })
    },
    /** The same without an answer; a message that cannot be delivered is lost. */
    notify: (name: string, ...args: readonly unknown[]): void => send({ to: name, args }),
    /** Call it with each message of the channel. */
    take(received: unknown): void {
      const message = received as Message
      if ('to' in message) return void handle(message)
      const who = waiting.get(message.re)
      if (who === undefined) return
      waiting.delete(message.re)
      clearTimeout(who.timer)
      if (message.error === undefined) who.resolve(message.answer)
      else who.reject(new Error(message.error))
    },
    /** The other side is gone. */
    close(): void {
      for (const { reject, timer } of waiting.values()) {
        clearTimeout(timer)
        reject(new Error('the other process is gone'))
      }
      waiting.clear()
    },
  }
}
