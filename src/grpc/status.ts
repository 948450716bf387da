/** How a gRPC call ends (gRPC over HTTP/2, "Responses"). */

import { WireError } from './wire.ts'

/** The codes of gRPC's statuscodes.md that this server uses itself. */
export const grpcStatus = {
  ok: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  resourceExhausted: 8,
  failedPrecondition: 9,
  unimplemented: 12,
  internal: 13,
} as const

/** Ends a call with this code and message, which the client sees. */
export class CallError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.name = 'CallError'
    this.code = code
  }
}

/** The error for the client; it hides the details of our own bugs. */
export function toCallError(error: unknown, onFault: (error: unknown) => void): CallError {
  if (error instanceof CallError) return error
  if (error instanceof WireError) {
    return new CallError(grpcStatus.invalidArgument, `malformed message: ${error.message}`)
  }
  onFault(error)
  return new CallError(grpcStatus.internal, 'internal error')
}

/** Encodes a `grpc-message`: UTF-8, percent-encoded except for printable ASCII other than the percent sign. */
export function encodeGrpcMessage(message: string): string {
  let encoded = ''
  for (const byte of Buffer.from(message)) {
    const plain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25
    encoded += plain
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return encoded
}
