import { Group, Stack } from '@mantine/core'
import type { FormEvent, ReactNode } from 'react'
import { addressOf, go } from '../route.ts'

interface QuestionFormProps {
  readonly isColumn?: boolean
  readonly children: ReactNode
}

/** A form that puts the question into the address. */
export function QuestionForm({ isColumn = false, children }: QuestionFormProps) {
  function ask(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const written = [...new FormData(event.currentTarget)].map(
      ([name, value]) => [name, String(value).trim()] as const,
    )
    go(addressOf('explain', Object.fromEntries(written.filter(([, value]) => value !== ''))))
  }
  return (
    <form onSubmit={ask}>
      {isColumn ? (
        <Stack gap="sm" align="stretch">
          {children}
        </Stack>
      ) : (
        <Group gap="xs">{children}</Group>
      )}
    </form>
  )
}
