import { Paper, Stack, Text } from '@mantine/core'
import type { ReactNode } from 'react'

/** An empty state: names the missing thing and the next action. */
export function Nothing({
  title,
  children,
}: {
  readonly title: string
  readonly children?: ReactNode
}) {
  return (
    <Paper withBorder p="xl">
      <Stack align="center" gap="xs">
        <Text fw={600}>{title}</Text>
        {children && (
          <Text c="dimmed" size="sm" ta="center" component="div">
            {children}
          </Text>
        )}
      </Stack>
    </Paper>
  )
}
