/** Images and sound. */

import { type Answer, countWords, madeAt, write } from './words.ts'

/** One pixel. */
const picture =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

export const images: Answer = (body) => {
  const n = typeof body.n === 'number' ? Math.max(1, Math.min(body.n, 10)) : 1
  const input = countWords(body.prompt)
  const usage = { input_tokens: input, output_tokens: n, total_tokens: input + n }
  const data = Array.from({ length: n }, () => ({ b64_json: picture }))
  return { whole: { created: madeAt, data, usage } }
}

/** A tenth of a second of silence: WAV, one channel of 8 kHz with 8 bits. */
export const speech: Answer = () => {
  const samples = 800
  const sound = Buffer.alloc(44 + samples, 0x80)
  sound.write('RIFF\0\0\0\0WAVEfmt ', 'latin1')
  sound.writeUInt32LE(36 + samples, 4)
  sound.writeUInt32LE(16, 16)
  sound.writeUInt16LE(1, 20)
  sound.writeUInt16LE(1, 22)
  sound.writeUInt32LE(8_000, 24)
  sound.writeUInt32LE(8_000, 28)
  sound.writeUInt16LE(1, 32)
  sound.writeUInt16LE(8, 34)
  sound.write('data', 36, 'latin1')
  sound.writeUInt32LE(samples, 40)
  return { whole: sound, type: 'audio/wav' }
}

/** For an upload, which is not listened to. */
export const transcription: Answer = (body) => ({ whole: { text: write(body, undefined).text } })
