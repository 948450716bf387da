import { Checkbox, NativeSelect, Text } from '@mantine/core'
import { useState } from 'react'
import type { ApiKey, CreatedKey } from '../api.ts'
import { useAttempts } from '../parts/attempts.ts'
import { DialogForm } from '../parts/dialog-form.tsx'
import { useSession } from '../session.tsx'
import { KeyModal, type Make } from './show-key.tsx'

interface RotateKeyProps {
  /** If undefined, the dialog is closed. */
  readonly record: ApiKey | undefined
  readonly onClose: () => void
  readonly onRotated: () => void
}

/** Gives a key a new secret and shows it; the old one works a while longer. */
export function RotateKey({ record, onClose, onRotated }: RotateKeyProps) {
  return (
    <KeyModal
      title="Rotate an API key"
      isOpen={record !== undefined}
      onClose={onClose}
      onMade={onRotated}
    >
      {(make) => record && <Form record={record} onCancel={onClose} make={make} />}
    </KeyModal>
  )
}

const overlaps = [
  { value: '1h', label: '1 hour' },
  { value: '24h', label: '24 hours' },
  { value: '7d', label: '7 days' },
  { value: '0s', label: 'It ends at once' },
]

interface FormProps {
  readonly record: ApiKey
  readonly onCancel: () => void
  readonly make: Make
}

function Form({ record, onCancel, make }: FormProps) {
  const { call } = useSession()
  const attempt = useAttempts()
  const [overlap, setOverlap] = useState('24h')
  const [isShort, setShort] = useState(false)
  const ends = overlap === '0s'

  async function rotate() {
    const path = `/v1/api-keys/${encodeURIComponent(record.id)}/rotate`
    const times = { overlap: ends ? 0 : overlap }
    const more = isShort && !ends ? { endOldAfterFirstUse: '1h' } : {}
    const body = { ...times, ...more }
    await make(call<CreatedKey>('POST', path, body, attempt(body)))
  }

  return (
    <DialogForm label="Rotate" onSubmit={rotate} onCancel={onCancel}>
      <Text className="breaks">
        <b>{record.name}</b> gets a new secret. Its id, subscription, restrictions and expiry stay
        as they are.
      </Text>
      {record.previous && (
        <Text size="sm">The secret that was replaced before ends with this rotation.</Text>
      )}
      <NativeSelect
        label="The present secret works for"
        description="Time to deploy the new one."
        value={overlap}
        onChange={({ currentTarget }) => setOverlap(currentTarget.value)}
        data={overlaps}
        data-autofocus
      />
      <Checkbox
        label="But at most for an hour after the first use of the new one"
        disabled={ends}
        checked={isShort && !ends}
        onChange={({ currentTarget }) => setShort(currentTarget.checked)}
      />
    </DialogForm>
  )
}
