/** The text of a body; undefined if it has more than `most` bytes, whose rest is not read. */
export async function readBody(
  body: AsyncIterable<Uint8Array>,
  most: number,
): Promise<string | undefined> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > most) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
