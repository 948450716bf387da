/** The form of the table's two files, which the gateway's script reads: sizes and places (docs/table.md). */

/** Limits of one block. */
export const cellsOfBlock = 6
