import { useState } from 'react'
import type { ApiKey, Propagation, Subscription } from '../api.ts'
import { Dialog } from '../parts/dialog.tsx'
import { DialogForm } from '../parts/dialog-form.tsx'
import { endWith, PropagationNote } from '../parts/propagation.tsx'
import { toast } from '../parts/toast.tsx'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { changesIn, KeyFields } from './key-fields.tsx'
import { nameOf } from './limit-fields.tsx'

interface EditKeyProps {
  /** If undefined, the dialog is closed. */
  readonly record: ApiKey | undefined
  readonly onClose: () => void
  readonly onChanged: () => void
}

export function EditKey({ record, onClose, onChanged }: EditKeyProps) {
  return (
    <Dialog opened={record !== undefined} onClose={onClose} size="lg" title="Edit an API key">
      {record && <Form key={record.id} {...{ record, onClose, onChanged }} />}
    </Dialog>
  )
}

function Form({ record, onClose, onChanged }: EditKeyProps & { readonly record: ApiKey }) {
  const { call } = useSession()
  // The caller's subscriptions; another user's key may have one that is not among them.
  const subscriptions = useLoaded('', () =>
    call<readonly Subscription[]>('GET', '/v1/subscriptions'),
  )
  const [propagation, setPropagation] = useState<Propagation>()
  const paying = subscriptions.value?.find(
    ({ subscription_id_header: name }) => name === record.subscription,
  )

  async function save(form: FormData) {
    const path = `/v1/api-keys/${encodeURIComponent(record.id)}`
    const body = changesIn(form, record)
    if (Object.keys(body).length === 0) {
      toast(`Nothing was changed: ${record.name}`)
      onClose()
      return
    }
    const answer = await call<{ readonly propagation?: Propagation }>('PATCH', path, body)
    onChanged()
    const saved = { done: 'Saved', name: body.name ?? record.name }
    endWith(answer.propagation, saved, { onClose, onPending: setPropagation })
  }

  if (propagation) return <PropagationNote done="Saved" {...{ propagation, onClose }} />
  return (
    <DialogForm label="Save" onSubmit={save} onCancel={onClose}>
      <KeyFields record={record} models={paying?.model_refs.map(nameOf) ?? []} />
    </DialogForm>
  )
}
