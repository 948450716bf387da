/** grpc.health.v1.Health: SERVING from the start, NOT_SERVING once draining. */

import type * as grpc from '@grpc/grpc-js'
import { WireWriter } from './wire.ts'

/** HealthCheckResponse.ServingStatus. */
const serving = 1
const notServing = 2

export interface Health {
  readonly definition: grpc.ServiceDefinition
  readonly implementation: grpc.UntypedServiceImplementation
  /** Tells everyone who watches, and everyone who asks from now on. */
  drain(): void
}

export function createHealth(): Health {
  let status = serving
  const watchers = new Set<grpc.ServerWritableStream<Buffer, Buffer>>()
  const current = (): Buffer => new WireWriter(16).unsigned(1, status).finish()

  const check: grpc.handleUnaryCall<Buffer, Buffer> = (_call, callback) => callback(null, current())
  const watch: grpc.handleServerStreamingCall<Buffer, Buffer> = (call) => {
    watchers.add(call)
    call.on('cancelled', () => watchers.delete(call))
    call.write(current())
  }

  return {
    definition: { Check: method('Check', false), Watch: method('Watch', true) },
    implementation: { Check: check, Watch: watch },
    drain() {
      status = notServing
      for (const watcher of watchers) {
        watcher.write(current())
        watcher.end()
      }
      watchers.clear()
    },
  }
}

function method(name: string, responseStream: boolean): grpc.MethodDefinition<Buffer, Buffer> {
  const bytes = (buffer: Buffer): Buffer => buffer
  return {
    path: `/grpc.health.v1.Health/${name}`,
    requestStream: false,
    responseStream,
    requestSerialize: bytes,
    requestDeserialize: bytes,
    responseSerialize: bytes,
    responseDeserialize: bytes,
  }
}
