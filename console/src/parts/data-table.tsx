// biome-ignore-all lint/a11y/noRedundantRoles: some browsers forget what a table is when its display changes

/**
 * A table of data; if it has little room, each row is a card. It consists of plain elements, because a component of
 * Mantine for each cell costs more than everything else on a page.
 */

import type { ReactNode } from 'react'

export interface Column<Row> {
  /** Its head, and the label of its cells on cards. */
  readonly title: string
  /** Replaces the title as the head, such as a button that sorts. */
  readonly head?: ReactNode
  readonly sorted?: 'ascending' | 'descending' | undefined
  /**
   * `number`: aligned right; `wide`: gets room first; `tall`: may have several lines, and has a card's whole width;
   * `acts`: buttons or links, without a visible title.
   */
  readonly kind?: 'number' | 'wide' | 'tall' | 'acts'
  /** Hidden if there is room for columns, but not for many. */
  readonly isExtra?: boolean
  readonly cell: (row: Row, at: number) => ReactNode
}

interface DataTableProps<Row> {
  readonly label: string
  /** The first one is the heading of a card. */
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** A key that identifies the row. */
  readonly keyOf: (row: Row) => string
}

export function DataTable<Row>({ label, columns, rows, keyOf }: DataTableProps<Row>) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls needs the keyboard
    <section className="data mantine-focus-auto" aria-label={label} tabIndex={0}>
      <table role="table">
        <thead role="rowgroup">
          <tr role="row">
            {columns.map(({ title, head, sorted, kind, isExtra }) => (
              <th
                key={title}
                scope="col"
                role="columnheader"
                data-kind={kind}
                data-extra={isExtra}
                aria-sort={sorted}
              >
                {head ?? <span className={kind === 'acts' ? 'unseen' : undefined}>{title}</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row, at) => (
            <tr key={keyOf(row)} role="row">
              {columns.map(({ title, kind, isExtra, cell }) => (
                <td
                  key={title}
                  role="cell"
                  data-label={title}
                  data-kind={kind}
                  data-extra={isExtra}
                >
                  {/* One element beside the label. */}
                  <div>{cell(row, at)}</div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
