/** grpc.health.v1.Health/Check: SERVING from the start, NOT_SERVING while this process cannot serve, and once draining. */

import { WireWriter } from './wire.ts'

/** HealthCheckResponse.ServingStatus. */
const serving = 1
const notServing = 2

export function createHealth() {
  let isServing = true
  let isDraining = false
  const status = () => (isServing && !isDraining ? serving : notServing)

  return {
    unary: {
      '/grpc.health.v1.Health/Check': () => new WireWriter(16).unsigned(1, status()).finish(),
    },
    /** The status in later responses. */
    note(serves: boolean): void {
      isServing = serves
    },
    /** Permanently NOT_SERVING. */
    drain(): void {
      isDraining = true
    },
  }
}
