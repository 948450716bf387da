import { Button, CopyButton } from '@mantine/core'

interface CopyProps {
  readonly value: string
  readonly label?: string
  /** Whether it is the main action. */
  readonly isMain?: boolean
}

export function Copy({ value, label = 'Copy', isMain = false }: CopyProps) {
  return (
    <CopyButton value={value} timeout={2_000}>
      {({ copied, copy }) => (
        <Button
          size={isMain ? 'sm' : 'compact-xs'}
          variant={isMain ? 'filled' : 'default'}
          flex="none"
          onClick={copy}
        >
          <span aria-live="polite">{copied ? 'Copied' : label}</span>
        </Button>
      )}
    </CopyButton>
  )
}
