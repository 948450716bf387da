import { Button, CopyButton } from '@mantine/core'

export function Copy({
  value,
  label = 'Copy',
}: {
  readonly value: string
  readonly label?: string
}) {
  return (
    <CopyButton value={value} timeout={2_000}>
      {({ copied, copy }) => (
        <Button size="compact-sm" variant="default" onClick={copy}>
          <span aria-live="polite">{copied ? 'Copied' : label}</span>
        </Button>
      )}
    </CopyButton>
  )
}
