/** The peer's limits, from its SETTINGS (RFC 9113, 6.5.2). */

import {
  ConnectionError,
  defaultFrameSize,
  defaultWindow,
  errorCode,
  frameSizeLimit,
  maxWindow,
  settingId,
} from './frames.ts'

const settingBytes = 6

export class PeerSettings {
  /** The smallest SETTINGS_HEADER_TABLE_SIZE so far; initially the default. */
  minTable = 4_096
  initialWindow = defaultWindow
  maxFrame = defaultFrameSize

  /** Reads a payload. Throws a ConnectionError for an invalid one. */
  read(buffer: Buffer, start: number, end: number): void {
    if ((end - start) % settingBytes !== 0) {
      throw new ConnectionError(errorCode.frameSizeError, 'SETTINGS')
    }
    for (let at = start; at < end; at += settingBytes) {
      this.#set(buffer.readUInt16BE(at), buffer.readUInt32BE(at + 2))
    }
  }

  /** Ignores unknown settings, and limits of what this server never does. */
  #set(name: number, value: number): void {
    if (name === settingId.headerTableSize) {
      this.minTable = Math.min(this.minTable, value)
    } else if (name === settingId.enablePush) {
      if (value > 1) throw new ConnectionError(errorCode.protocolError, 'ENABLE_PUSH')
    } else if (name === settingId.initialWindowSize) {
      if (value > maxWindow) {
        throw new ConnectionError(errorCode.flowControlError, 'INITIAL_WINDOW_SIZE')
      }
      this.initialWindow = value
    } else if (name === settingId.maxFrameSize) {
      if (value < defaultFrameSize || value > frameSizeLimit) {
        throw new ConnectionError(errorCode.protocolError, 'MAX_FRAME_SIZE')
      }
      this.maxFrame = value
    }
  }
}
