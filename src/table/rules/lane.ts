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

/** In doubt nothing (undefined): what was added is then counted twice until its window ends. */
export function readLane(text: unknown): Lane | undefined {
  if (typeof text !== 'string') return undefined
  const [file, added, ...blocks] = /^\d{1,15}(?: \d{1,15}){2,3}$/.test(text)
    ? text.split(' ').map(Number)
    : []
  return file === undefined || added === undefined ? undefined : { file, added, blocks }
}

/** Where a response is to add: a lane without a figure. */
export function writeLanePlace(file: number, blocks: readonly number[]): string {
  return [file, ...blocks].join(' ')
}
