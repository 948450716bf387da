import { Button, Checkbox, Group, NativeSelect, Stack, Text } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { ApiError, ApiKey, CreatedKey } from '../api.ts'
import { Problem } from '../parts/problem.tsx'
import { useSession } from '../session.tsx'
import { KeyModal } from './show-key.tsx'

interface RotateKeyProps {
  /** undefined: nothing is asked. */
  readonly record: ApiKey | undefined
  readonly onClose: () => void
  readonly onRotated: () => void
}

/** Gives a key a new secret and shows it; the old one works a while longer. */
export function RotateKey({ record, onClose, onRotated }: RotateKeyProps) {
  const [created, setCreated] = useState<CreatedKey>()
  const close = () => {
    setCreated(undefined)
    onClose()
  }
  return (
    <KeyModal
      title="Rotate an API key"
      isOpen={record !== undefined}
      created={created}
      onClose={close}
    >
      {record && (
        <Form
          record={record}
          onCancel={close}
          onRotated={(key) => {
            setCreated(key)
            onRotated()
          }}
        />
      )}
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
  readonly onRotated: (key: CreatedKey) => void
}

function Form({ record, onCancel, onRotated }: FormProps) {
  const { call } = useSession()
  const [overlap, setOverlap] = useState('24h')
  const [isShort, setShort] = useState(false)
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()
  const ends = overlap === '0s'

  async function rotate(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      const path = `/v1/api-keys/${encodeURIComponent(record.id)}/rotate`
      const times = { overlap: ends ? 0 : overlap }
      const more = isShort && !ends ? { endOldAfterFirstUse: '1h' } : {}
      onRotated(await call<CreatedKey>('POST', path, { ...times, ...more }))
    } catch (problem) {
      setError(problem as ApiError)
      setBusy(false)
    }
  }

  return (
    <form onSubmit={rotate}>
      <Stack>
        <Text className="breaks">
          <b>{record.name}</b> gets a new secret. Everything else stays: its id, its subscription,
          and when it expires.
        </Text>
        {record.previous && (
          <Text size="sm">The secret that was replaced before ends with this rotation.</Text>
        )}
        <NativeSelect
          label="The present secret works for"
          description="Time to put the new one everywhere."
          value={overlap}
          onChange={({ currentTarget }) => setOverlap(currentTarget.value)}
          data={overlaps}
          data-autofocus
        />
        <Checkbox
          label="Sooner: until an hour after the new one is first used"
          disabled={ends}
          checked={isShort && !ends}
          onChange={({ currentTarget }) => setShort(currentTarget.checked)}
        />
        <Problem error={error} />
        <Group justify="flex-end">
          <Button variant="default" onClick={onCancel}>
            Cancel
          </Button>
          <Button type="submit" loading={isBusy}>
            Rotate
          </Button>
        </Group>
      </Stack>
    </form>
  )
}
