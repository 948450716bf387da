/** The service's own gRPC server, without the service: `node bench/yardsticks/own.ts host:port`. */

import { createGrpcServer } from '../../src/grpc/server.ts'
import { allowed, checkPath, readAddress } from './answer.ts'

const server = createGrpcServer({
  unary: { [checkPath]: () => allowed },
  onFault: console.error,
})
await server.listen(readAddress())
