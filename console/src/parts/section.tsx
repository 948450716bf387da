import { Text } from '@mantine/core'
import type { ReactNode } from 'react'

interface SectionProps {
  readonly title: string
  /** At the other end of the title's line. */
  readonly action?: ReactNode
  readonly children: ReactNode
}

/** A title above content with a border of its own, such as a table. */
export function Section({ title, action, children }: SectionProps) {
  return (
    <section aria-label={title}>
      <div className="spread">
        <Text className="title" component="h2">
          {title}
        </Text>
        {action}
      </div>
      {children}
    </section>
  )
}
