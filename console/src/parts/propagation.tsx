import { Alert, Button, Stack, Text } from '@mantine/core'
import type { Propagation } from '../api.ts'

interface PropagationNoteProps {
  readonly propagation: Propagation
  /** What has been done; `Revoked` by default. */
  readonly done?: string
  readonly onClose: () => void
}

/** The end of a dialog: whether a change is in force everywhere already. */
export function PropagationNote({ propagation, done = 'Revoked', onClose }: PropagationNoteProps) {
  const { state, replicas, acknowledged, waitingFor = [] } = propagation
  const isEverywhere = state === 'confirmed'
  return (
    <Stack>
      <Alert
        color={isEverywhere ? 'green' : 'yellow'}
        variant="outline"
        role="status"
        title={isEverywhere ? `${done} everywhere` : `${done}, and still spreading`}
      >
        <Text size="sm">
          {isEverywhere
            ? `In force on ${replicas === 1 ? 'the service' : `all ${replicas} replicas`} now.`
            : `In force on ${acknowledged} of ${replicas} replicas now. The others learn of it, or stop serving, within a second or two.`}
        </Text>
        {waitingFor.length > 0 && <Text size="sm">Waiting for {waitingFor.join(', ')}.</Text>}
      </Alert>
      <Button variant="default" onClick={onClose} data-autofocus>
        Close
      </Button>
    </Stack>
  )
}
