import { Text } from '@mantine/core'
import { useState } from 'react'
import type { ApiKey, Propagation } from '../api.ts'
import { Dialog } from '../parts/dialog.tsx'
import { DialogForm } from '../parts/dialog-form.tsx'
import { endWith, PropagationNote } from '../parts/propagation.tsx'
import { useSession } from '../session.tsx'

interface RevokeKeyProps {
  /** If undefined, the dialog is closed. */
  readonly record: ApiKey | undefined
  readonly onClose: () => void
  readonly onRevoked: () => void
}

export function RevokeKey({ record, onClose, onRevoked }: RevokeKeyProps) {
  return (
    <Dialog opened={record !== undefined} onClose={onClose} title="Revoke an API key">
      {record && <Question key={record.id} {...{ record, onClose, onRevoked }} />}
    </Dialog>
  )
}

function Question({ record, onClose, onRevoked }: RevokeKeyProps & { readonly record: ApiKey }) {
  const { call } = useSession()
  const [propagation, setPropagation] = useState<Propagation>()

  async function revoke() {
    const path = `/v1/api-keys/${encodeURIComponent(record.id)}`
    const answer = await call<{ readonly propagation: Propagation }>('DELETE', path)
    onRevoked()
    const revoked = { done: 'Revoked', name: record.name }
    endWith(answer.propagation, revoked, { onClose, onPending: setPropagation })
  }

  if (propagation) return <PropagationNote done="Revoked" {...{ propagation, onClose }} />
  return (
    <DialogForm label="Revoke" cancel="Keep it" color="red.9" onSubmit={revoke} onCancel={onClose}>
      <Text className="breaks">
        Clients that use <b>{record.name}</b> get 401 at once. A revoked key cannot be restored.
      </Text>
    </DialogForm>
  )
}
