import { Table } from '@mantine/core'
import type { ReactNode } from 'react'
import { Panel } from './panel.tsx'

interface FactsProps {
  readonly title: string
  /** Next to the title. */
  readonly badge?: ReactNode
  readonly children: ReactNode
}

/** A card of names and values. */
export function Facts({ title, badge, children }: FactsProps) {
  return (
    <Panel title={title} badge={badge}>
      <Table withRowBorders={false} verticalSpacing={3} horizontalSpacing={0} className="numbers">
        <Table.Tbody>{children}</Table.Tbody>
      </Table>
    </Panel>
  )
}

export function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <Table.Tr>
      <Table.Th fw={400} fz="sm" pr="sm" scope="row" c="dimmed">
        {name}
      </Table.Th>
      <Table.Td ta="right" className="breaks" miw={64}>
        {children}
      </Table.Td>
    </Table.Tr>
  )
}

interface LongFactProps {
  readonly name: string
  readonly children: string
}

/** A fact that may be long, such as a path: on a line of its own, truncated if it does not fit. */
export function LongFact({ name, children }: LongFactProps) {
  return (
    <Table.Tr>
      {/* Without a width of its own it leaves the others theirs. */}
      <Table.Td colSpan={2} maw={0}>
        <div className="clip" title={children}>
          <span className="dimmed">{name}</span> {children}
        </div>
      </Table.Td>
    </Table.Tr>
  )
}
