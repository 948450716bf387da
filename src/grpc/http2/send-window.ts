/**
 * The send window of a connection (RFC 9113, section 5.2), and the order of waiting streams: each
 * sends one frame in turn.
 */

import { ConnectionError, defaultWindow, errorCode, maxWindow } from './frames.ts'

/** A stream with data to send. */
export interface Sender {
  /** Whether it is in the queue. */
  queued: boolean
  /** Sends one frame if the windows allow it; returns whether more could be sent. */
  sendHeld(): boolean
}

export class SendWindow {
  #left = defaultWindow
  /** Streams before index `#next` have had their turn. */
  #queue: Sender[] = []
  #next = 0
  #held = 0
  readonly #maxHeld: number

  /** `maxHeld`: maximum number of response bytes that may wait for a client's windows. */
  constructor(maxHeld: number) {
    this.#maxHeld = maxHeld
  }

  get left(): number {
    return this.#left
  }

  /** This many bytes have been sent. */
  spend(bytes: number): void {
    this.#left -= bytes
  }

  /** The peer has extended the window (6.9). */
  add(increment: number): void {
    this.#left += increment
    if (this.#left > maxWindow) {
      throw new ConnectionError(errorCode.flowControlError, 'window of the connection')
    }
    this.pump()
  }

  /** This many bytes wait or, if negative, no longer do; false if too many are waiting. */
  hold(bytes: number): boolean {
    this.#held += bytes
    return this.#held <= this.#maxHeld
  }

  /** Queues this stream for its turn. */
  queue(sender: Sender): void {
    if (sender.queued) return
    sender.queued = true
    this.#queue.push(sender)
  }

  /** Sends as much as the window allows. */
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
