import { Alert, Text } from '@mantine/core'
import type { Propagation } from '../api.ts'

/** Whether a revocation is in force everywhere already. */
export function PropagationNote({ propagation }: { readonly propagation: Propagation }) {
  const { state, replicas, acknowledged, waitingFor = [] } = propagation
  if (state === 'confirmed') {
    return (
      <Alert color="green" variant="outline" role="status" title="Revoked everywhere">
        {replicas === 1 ? 'The service refuses it now.' : `All ${replicas} replicas refuse it now.`}
      </Alert>
    )
  }
  return (
    <Alert color="yellow" variant="outline" role="status" title="Revoked, and still spreading">
      <Text size="sm">
        {acknowledged} of {replicas} replicas refuse it now. The others learn of it, or stop
        serving, within a second or two.
      </Text>
      {waitingFor.length > 0 && <Text size="sm">Waiting for {waitingFor.join(', ')}.</Text>}
    </Alert>
  )
}
