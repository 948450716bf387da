import { Button, Group, Text } from '@mantine/core'
import { refine } from '../route.ts'
import { Nothing } from './nothing.tsx'

/** The page number in the address; the first page by default. */
export function pageIn(query: URLSearchParams): number {
  return Math.max(1, Math.trunc(Number(query.get('page') ?? 1)) || 1)
}

export function Pages({ page, hasMore }: { readonly page: number; readonly hasMore: boolean }) {
  if (page === 1 && !hasMore) return null
  return (
    <Group justify="flex-end" gap="xs">
      <Turn label="Previous" isEnd={page === 1} to={page - 1} />
      <Text size="sm" role="status">
        Page {page}
      </Text>
      <Turn label="Next" isEnd={!hasMore} to={page + 1} />
    </Group>
  )
}

/** In place of the rows of a page after the last one, such as of an old link. */
export function EmptyPage() {
  return (
    <Nothing title="This page is empty">
      <Button variant="default" onClick={() => refine({ page: '' })}>
        Go to the first page
      </Button>
    </Nothing>
  )
}

interface TurnProps {
  readonly label: string
  readonly isEnd: boolean
  readonly to: number
}

/** At the end it does nothing, but keeps the focus, which a disabled button loses. */
function Turn({ label, isEnd, to }: TurnProps) {
  return (
    <Button
      size="compact-sm"
      variant="default"
      {...(isEnd && { 'data-disabled': true })}
      aria-disabled={isEnd}
      onClick={() => {
        if (!isEnd) refine({ page: to === 1 ? '' : String(to) })
      }}
    >
      {label}
    </Button>
  )
}
