/** Writes connection frames, and RST_STREAM (RFC 9113, section 6). */

import { frameFlag, frameHeaderBytes, frameType, putFrameHead, putUint32 } from './frames.ts'
import type { Output } from './output.ts'

export const pingBytes = 8
const settingBytes = 6

type SettingsToSend = readonly (readonly [name: number, value: number])[]

export function putSettings(output: Output, settings: SettingsToSend): void {
  const bytes = settings.length * settingBytes
  const begin = output.reserve(frameHeaderBytes + bytes)
  const { buffer } = output
  let at = putFrameHead(buffer, begin, bytes, frameType.settings, 0, 0)
  for (const [name, value] of settings) {
    at = putUint32(buffer, buffer.writeUInt16BE(name, at), value)
  }
}

export function putSettingsAck(output: Output): void {
  const at = output.reserve(frameHeaderBytes)
  putFrameHead(output.buffer, at, 0, frameType.settings, frameFlag.ack, 0)
}

/** The payload is in `payload` from `start` on. */
export function putPing(output: Output, flags: number, payload: Buffer, start: number): void {
  const at = output.reserve(frameHeaderBytes + pingBytes)
  const { buffer } = output
  payload.copy(
    buffer,
    putFrameHead(buffer, at, pingBytes, frameType.ping, flags, 0),
    start,
    start + pingBytes,
  )
}

/** `message` is ASCII, for debugging. */
export function putGoaway(output: Output, last: number, code: number, message = ''): void {
  const bytes = 8 + message.length
  const at = output.reserve(frameHeaderBytes + bytes)
  const { buffer } = output
  const to = putUint32(buffer, putFrameHead(buffer, at, bytes, frameType.goaway, 0, 0), last)
  buffer.write(message, putUint32(buffer, to, code), 'latin1')
}

export function putWindowUpdate(output: Output, stream: number, increment: number): void {
  put32(output, frameType.windowUpdate, stream, increment)
}

export function putReset(output: Output, stream: number, code: number): void {
  put32(output, frameType.rstStream, stream, code)
}

function put32(output: Output, type: number, stream: number, value: number): void {
  const at = output.reserve(frameHeaderBytes + 4)
  const { buffer } = output
  putUint32(buffer, putFrameHead(buffer, at, 4, type, 0, stream), value)
}
