/** A minimal grpc-js server: `node bench/yardsticks/grpc-js.ts host:port`. */

import * as grpc from '@grpc/grpc-js'
import { allowed, checkPath, readAddress } from './answer.ts'

const bytes = (message: Buffer): Buffer => message
const server = new grpc.Server()
server.addService(
  {
    check: {
      path: checkPath,
      requestStream: false,
      responseStream: false,
      requestSerialize: bytes,
      requestDeserialize: bytes,
      responseSerialize: bytes,
      responseDeserialize: bytes,
    },
  },
  {
    check: (_call: unknown, answer: grpc.sendUnaryData<Buffer>) => answer(null, allowed),
  },
)
server.bindAsync(readAddress(), grpc.ServerCredentials.createInsecure(), (error) => {
  if (error !== null) throw error
})
