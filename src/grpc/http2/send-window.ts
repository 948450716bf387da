/**
 * What we may send on a connection (RFC 9113, section 5.2), and whose turn it is: streams that wait
 * for the connection's window send a frame each, in turn.
 */

import { ConnectionError, errorCode, largestWindow, usualWindow } from './frames.ts'

/** A stream that has something to send. */
export interface Sender {
  /** It waits in the queue. */
  queued: boolean
  /** Sends one frame as far as the windows allow; whether it could go on. */
  sendHeld(): boolean
}

export class SendWindow {
  #left = usualWindow
  /** Those before `#next` have had their turn. */
  #queue: Sender[] = []
  #next = 0
  #held = 0
  readonly #mostHeld: number

  /** `mostHeld` bytes of answers may wait for a client's windows. */
  constructor(mostHeld: number) {
    this.#mostHeld = mostHeld
  }

  get left(): number {
    return this.#left
  }

  /** So many bytes are sent. */
  spend(bytes: number): void {
    this.#left -= bytes
  }

  /** The peer takes so many more (6.9). */
  add(increment: number): void {
    this.#left += increment
    if (this.#left > largestWindow) {
      throw new ConnectionError(errorCode.flowControlError, 'window of the connection')
    }
    this.pump()
  }

  /** So many bytes wait, or, below 0, do not any more; false when they are too many. */
  hold(bytes: number): boolean {
    this.#held += bytes
    return this.#held <= this.#mostHeld
  }

  /** Has this stream send when it is its turn. */
  queue(sender: Sender): void {
    if (sender.queued) return
    sender.queued = true
    this.#queue.push(sender)
  }

  /** Sends what the window allows. */
  pump(): void {
    while (this.#left > 0 && this.#next < this.#queue.length) {
      const sender = this.#queue[this.#next] as Sender
      this.#next += 1
      sender.queued = false
      if (sender.sendHeld()) this.queue(sender)
      if (this.#next < 1_024 && this.#next < this.#queue.length) continue
      this.#queue.splice(0, this.#next)
      this.#next = 0
    }
  }
}
