/** How far Envoy has come with finishing its requests, before it is stopped. */

export interface DrainState {
  /**
   * `draining`: call again; `overdue`: requests are still in progress and are no longer waited for;
   * `unreachable`: Envoy's admin page does not respond.
   */
  readonly status: 'draining' | 'drained' | 'overdue' | 'unreachable'
  /** Requests in progress, or undefined if unknown. */
  readonly requests?: number
}

export interface GatewayDrain {
  /** Whether a drain was ever requested. */
  readonly isAsked: boolean
  /** The first call starts the drain. Resolves when it has ended, or after some seconds with its state. */
  ask(): Promise<DrainState>
}
