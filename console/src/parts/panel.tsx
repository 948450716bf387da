import { Card, Group, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { Link } from './link.tsx'

interface PanelProps {
  readonly title: string
  /** Its name, if the title changes. */
  readonly label?: string
  /** The address and the label of the link to the rest. */
  readonly more?: readonly [to: string, text: string] | undefined
  /** Next to the title. */
  readonly badge?: ReactNode
  readonly children: ReactNode
}

/** A card with a title, and content next to it. */
export function Panel({ title, label = title, more, badge, children }: PanelProps) {
  return (
    <Card withBorder component="section" aria-label={label}>
      <Group justify="space-between" mb="sm">
        <Text className="title" component="h2">
          {title}
        </Text>
        {more && <Link to={more[0]}>{more[1]}</Link>}
        {badge && (
          <Text size="sm" component="div">
            {badge}
          </Text>
        )}
      </Group>
      {children}
    </Card>
  )
}
