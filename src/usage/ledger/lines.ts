/** The lines of a whole file, as its follower would have read them. */

/** In bytes; longer ones are no lines of a journal. */
export const maxLineBytes = 65_536
const lineEnd = 10

/** Lines without their ends; a last one that has no end is left out. */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0)
  let isOverlong = false
  for await (const chunk of chunks) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let begin = 0
    for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, begin)) {
      if (!isOverlong && end - begin < maxLineBytes) yield bytes.toString('utf8', begin, end)
      isOverlong = false
      begin = end + 1
    }
    isOverlong ||= bytes.length - begin >= maxLineBytes
    rest = isOverlong ? Buffer.alloc(0) : bytes.subarray(begin)
  }
}
