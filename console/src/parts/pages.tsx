import { Button, Group, Text } from '@mantine/core'
import { refine } from '../route.ts'

/** The page number in the address; the first page by default. */
export function pageIn(query: URLSearchParams): number {
  return Math.max(1, Math.trunc(Number(query.get('page') ?? 1)) || 1)
}

export function Pages({ page, hasMore }: { readonly page: number; readonly hasMore: boolean }) {
  if (page === 1 && !hasMore) return null
  return (
    <Group justify="flex-end" gap="xs">
      <Button
        size="compact-sm"
        variant="default"
        disabled={page === 1}
        onClick={() => refine({ page: page === 2 ? '' : String(page - 1) })}
      >
        Previous
      </Button>
      <Text size="sm">Page {page}</Text>
      <Button
        size="compact-sm"
        variant="default"
        disabled={!hasMore}
        onClick={() => refine({ page: String(page + 1) })}
      >
        Next
      </Button>
    </Group>
  )
}
