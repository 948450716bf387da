import { Checkbox, NativeSelect, Paper } from '@mantine/core'
import { Fragment, useState } from 'react'
import type { CreatedKey, NewKey as NewKeyBody, Subscription } from '../api.ts'
import { byPreference } from '../models/offers.ts'
import { useAttempts } from '../parts/attempts.ts'
import { DialogForm, textIn } from '../parts/dialog-form.tsx'
import { LimitList } from '../parts/limits.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { KeyFields, keyFieldsIn } from './key-fields.tsx'
import { nameOf } from './limit-fields.tsx'
import { KeyModal, type Make } from './show-key.tsx'

interface NewKeyProps {
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly onCreated: () => void
}

/** Creates a key and shows it. */
export function NewKey({ isOpen, onClose, onCreated }: NewKeyProps) {
  return (
    <KeyModal title="New API key" {...{ isOpen, onClose }} onMade={onCreated}>
      {(make) => <Form onCancel={onClose} make={make} />}
    </KeyModal>
  )
}

interface Limits {
  readonly max_expiration_days: number
}

const lifetimes = [1, 7, 30, 90, 180, 365]

interface FormProps {
  readonly onCancel: () => void
  readonly make: Make
}

function Form({ onCancel, make }: FormProps) {
  const { call } = useSession()
  const attempt = useAttempts()
  const given = useLoaded('', async () => {
    const [subscriptions, { max_expiration_days: most }] = await Promise.all([
      call<readonly Subscription[]>('GET', '/v1/subscriptions'),
      call<Limits>('GET', '/v1/api-keys/config'),
    ])
    return { subscriptions: subscriptions.toSorted(byPreference), most }
  })
  const [subscription, setSubscription] = useState<string>()
  const [isEphemeral, setEphemeral] = useState(false)

  if (given.value === undefined) return given.error ? <Problem error={given.error} /> : <Pending />
  const { subscriptions, most } = given.value
  const paying =
    subscriptions.find((each) => each.subscription_id_header === subscription) ?? subscriptions[0]
  if (paying === undefined) {
    return (
      <Nothing title="No subscription is open to you">
        Ask an administrator to add you or one of your groups to one.
      </Nothing>
    )
  }

  async function create(form: FormData) {
    const body: NewKeyBody = {
      ...keyFieldsIn(form),
      subscription: textIn(form, 'subscription'),
      ...(isEphemeral ? { ephemeral: true } : { expiresIn: textIn(form, 'lifetime') }),
    }
    await make(call<CreatedKey>('POST', '/v1/api-keys', body, attempt(body)))
  }

  return (
    <DialogForm
      label="Create key"
      note="The key is shown once."
      onSubmit={create}
      onCancel={onCancel}
    >
      <KeyFields models={paying.model_refs.map(nameOf)} isNameRequired={!isEphemeral}>
        <NativeSelect
          name="subscription"
          label="Subscription"
          description="It pays, and determines which models the key may call."
          value={paying.subscription_id_header}
          onChange={({ currentTarget }) => setSubscription(currentTarget.value)}
          data={subscriptions.map(({ subscription_id_header: value, display_name }) => ({
            value,
            label: display_name ? `${display_name} (${value})` : value,
          }))}
        />
        <Paper withBorder p="sm">
          <dl className="gives">
            {paying.model_refs.map((model) => (
              <Fragment key={nameOf(model)}>
                <dt>{nameOf(model)}</dt>
                <dd>
                  <LimitList {...model} />
                </dd>
              </Fragment>
            ))}
          </dl>
        </Paper>
        <NativeSelect
          name="lifetime"
          label="Lifetime"
          disabled={isEphemeral}
          defaultValue={`${Math.min(30, most)}d`}
          data={[...new Set([...lifetimes.filter((days) => days < most), most])].map((days) => ({
            value: `${days}d`,
            label: days === 1 ? '1 day' : `${days} days${days === most ? ', the maximum' : ''}`,
          }))}
        />
        <Checkbox
          label="Ephemeral: expires after an hour, and is deleted soon after"
          checked={isEphemeral}
          onChange={({ currentTarget }) => setEphemeral(currentTarget.checked)}
        />
      </KeyFields>
    </DialogForm>
  )
}
