/**
 * What the response of a line has added to the lane of its worker (docs/table.md), as the line says it:
 * `<file> <tokens> <block>[ <block>]`.
 */

export interface Lane {
  /** Which files the lane and the blocks are in. */
  readonly file: number
  /** Tokens that were added to each of the blocks. */
  readonly added: number
  readonly blocks: readonly number[]
}

const form = /^(\d{1,15}) (\d{1,16}) (\d{1,9})(?: (\d{1,9}))?$/

/** undefined for anything else: nothing was added. */
export function readLane(text: unknown): Lane | undefined {
  const found = typeof text === 'string' ? form.exec(text) : null
  if (found === null) return undefined
  const [, file, added, first, second] = found
  const blocks = second === undefined ? [Number(first)] : [Number(first), Number(second)]
  return { file: Number(file), added: Number(added), blocks }
}

/** Where a response is to add: a lane without a figure. */
export function writeLanePlace(file: number, blocks: readonly number[]): string {
  return [file, ...blocks].join(' ')
}
