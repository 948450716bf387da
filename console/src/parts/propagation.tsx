import { Alert, Button, Stack, Text } from '@mantine/core'
import type { Propagation } from '../api.ts'
import { toast } from './toast.tsx'

interface PropagationNoteProps {
  readonly propagation: Propagation
  /** The action, such as `Revoked`. */
  readonly done: string
  readonly onClose: () => void
}

/** Closes a dialog if the change is in force everywhere; otherwise the dialog shows where it is not. */
export function endWith(
  propagation: Propagation | undefined,
  { done, name }: { readonly done: string; readonly name: string },
  { onClose, onPending }: { onClose: () => void; onPending: (pending: Propagation) => void },
): void {
  if (propagation?.state === 'pending') {
    onPending(propagation)
    return
  }
  toast(propagation === undefined ? `${done}: ${name}` : `${done} everywhere: ${name}`)
  onClose()
}

/** The end of a dialog: where a change is in force, and where not yet. */
export function PropagationNote({ propagation, done, onClose }: PropagationNoteProps) {
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
            : `In force on ${acknowledged} of ${replicas} replicas now. The others apply it, or stop serving, within a second or two.`}
        </Text>
        {waitingFor.length > 0 && <Text size="sm">Waiting for {waitingFor.join(', ')}.</Text>}
      </Alert>
      <Button variant="default" onClick={onClose} autoFocus>
        Close
      </Button>
    </Stack>
  )
}
