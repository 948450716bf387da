import { Button, Group, Modal, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { ApiError, ApiKey, Propagation } from '../api.ts'
import { Problem } from '../parts/problem.tsx'
import { PropagationNote } from '../parts/propagation.tsx'
import { useSession } from '../session.tsx'

interface RevokeKeyProps {
  /** undefined: nothing is asked. */
  readonly record: ApiKey | undefined
  readonly onClose: () => void
  readonly onRevoked: () => void
}

export function RevokeKey({ record, onClose, onRevoked }: RevokeKeyProps) {
  return (
    <Modal opened={record !== undefined} onClose={onClose} title="Revoke an API key">
      {record && <Question key={record.id} {...{ record, onClose, onRevoked }} />}
    </Modal>
  )
}

function Question({ record, onClose, onRevoked }: RevokeKeyProps & { readonly record: ApiKey }) {
  const { call } = useSession()
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()
  const [propagation, setPropagation] = useState<Propagation>()

  async function revoke() {
    setBusy(true)
    setError(undefined)
    try {
      const path = `/v1/api-keys/${encodeURIComponent(record.id)}`
      const answer = await call<{ propagation: Propagation }>('DELETE', path)
      setPropagation(answer.propagation)
      onRevoked()
    } catch (problem) {
      setError(problem as ApiError)
    }
    setBusy(false)
  }

  if (propagation) {
    return (
      <Stack>
        <PropagationNote propagation={propagation} />
        <Button variant="default" onClick={onClose} data-autofocus>
          Close
        </Button>
      </Stack>
    )
  }
  return (
    <Stack>
      <Text className="breaks">
        Whatever uses <b>{record.name}</b> is refused at once, with 401. A revoked key cannot be
        brought back.
      </Text>
      <Problem error={error} />
      <Group justify="flex-end">
        <Button variant="default" onClick={onClose}>
          Keep it
        </Button>
        <Button color="red.9" loading={isBusy} onClick={revoke}>
          Revoke
        </Button>
      </Group>
    </Stack>
  )
}
