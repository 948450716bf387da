import { Button, Group, Modal, Stack, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { ApiError, ApiKey } from '../api.ts'
import { Problem } from '../parts/problem.tsx'
import { useSession } from '../session.tsx'
import { LabelsField, labelsIn } from './labels.tsx'

interface EditKeyProps {
  /** undefined: nothing is edited. */
  readonly record: ApiKey | undefined
  readonly onClose: () => void
  readonly onChanged: () => void
}

export function EditKey({ record, onClose, onChanged }: EditKeyProps) {
  return (
    <Modal opened={record !== undefined} onClose={onClose} title="Edit an API key">
      {record && <Form key={record.id} {...{ record, onClose, onChanged }} />}
    </Modal>
  )
}

function Form({ record, onClose, onChanged }: EditKeyProps & { readonly record: ApiKey }) {
  const { call } = useSession()
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()

  async function save(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const text = (name: string) => String(form.get(name) ?? '').trim()
    setBusy(true)
    setError(undefined)
    try {
      await call('PATCH', `/v1/api-keys/${encodeURIComponent(record.id)}`, {
        name: text('name'),
        description: text('description'),
        labels: labelsIn(text('labels')),
      })
      onChanged()
      onClose()
    } catch (problem) {
      setError(problem as ApiError)
      setBusy(false)
    }
  }

  return (
    <form onSubmit={save}>
      <Stack>
        <TextInput
          name="name"
          label="Name"
          defaultValue={record.name}
          maxLength={128}
          autoComplete="off"
          required
          data-autofocus
        />
        <TextInput
          name="description"
          label="Description"
          defaultValue={record.description ?? ''}
          maxLength={1_024}
          autoComplete="off"
        />
        <LabelsField labels={record.labels} />
        <Problem error={error} />
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={isBusy}>
            Save
          </Button>
        </Group>
      </Stack>
    </form>
  )
}
