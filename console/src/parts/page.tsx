import { Group, Stack, Text, Title } from '@mantine/core'
import { type ReactNode, useEffect, useRef } from 'react'

interface PageProps {
  readonly title: string
  readonly about: ReactNode
  /** Buttons next to the title. */
  readonly actions?: ReactNode
  readonly children: ReactNode
}

/** A page with its heading, which gets the focus, so that a screen reader announces the page. */
export function Page({ title, about, actions, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · Tollgate`
  }, [title])
  // Not when the title becomes known later: the user may have gone on.
  useEffect(() => heading.current?.focus({ preventScroll: true }), [])
  return (
    <Stack gap="lg">
      <Group justify="space-between" align="flex-start">
        <div className="heading">
          <Title order={1} ref={heading} tabIndex={-1} style={{ outline: 'none' }}>
            {title}
          </Title>
          <Text c="dimmed" size="sm" maw="64em">
            {about}
          </Text>
        </div>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  )
}
