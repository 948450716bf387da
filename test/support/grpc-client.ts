import * as grpc from '@grpc/grpc-js'
import type { Test } from 'tap'
import { createGrpcServer, type GrpcMethods, type GrpcServer } from '../../src/grpc/server.ts'

const bytes = (message: Buffer): Buffer => message

/** A server with these methods on a free port, and a client of it; both end with `t`. */
export async function startGrpc(t: Test, methods: Partial<GrpcMethods>, address = '127.0.0.1:0') {
  const faults: unknown[] = []
  const server = createGrpcServer({
    unary: {},
    onFault: (error) => faults.push(error),
    ...methods,
  })
  const port = await server.listen(address)
  const client = connect(t, address.startsWith('unix:') ? address : `127.0.0.1:${port}`)
  t.teardown(() => server.stop(0))
  return { server, port, faults, ...client }
}

export function connect(t: Test, address: string) {
  const client = new grpc.Client(address, grpc.credentials.createInsecure())
  t.teardown(() => client.close())
  return {
    /** Resolves to the bytes of the answer; rejects with a grpc.ServiceError. */
    ask: (path: string, message: Buffer): Promise<Buffer> =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(path, bytes, bytes, message, deadline(), (error, answer) => {
          if (error === null && answer !== undefined) resolve(answer)
          else reject(error)
        })
      }),
    /** A stream from the server. */
    watch: (path: string, message: Buffer): grpc.ClientReadableStream<Buffer> =>
      client.makeServerStreamRequest(path, bytes, bytes, message, deadline()),
  }
}

/** Makes a server that does not respond fail the test instead of hanging it. */
function deadline(): grpc.CallOptions {
  return { deadline: Date.now() + 20_000 }
}

export type { GrpcServer }
