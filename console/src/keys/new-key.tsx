import { Button, Checkbox, Group, NativeSelect, Paper, Stack, Text, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { ApiError, CreatedKey, NewKey as NewKeyBody, Subscription } from '../api.ts'
import { Gives } from '../parts/limits.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Problem } from '../parts/problem.tsx'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { LabelsField, labelsIn } from './labels.tsx'
import { KeyModal } from './show-key.tsx'

interface NewKeyProps {
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly onCreated: () => void
}

/** Makes a key and shows it. */
export function NewKey({ isOpen, onClose, onCreated }: NewKeyProps) {
  const [created, setCreated] = useState<CreatedKey>()
  const close = () => {
    setCreated(undefined)
    onClose()
  }
  return (
    <KeyModal title="New API key" {...{ isOpen, created }} onClose={close}>
      <Form
        onCancel={close}
        onCreated={(key) => {
          setCreated(key)
          onCreated()
        }}
      />
    </KeyModal>
  )
}

interface Limits {
  readonly max_expiration_days: number
}

/** The order in which the API itself chooses a subscription. */
function byChoice(a: Subscription, b: Subscription): number {
  return b.priority - a.priority || maxLimit(b) - maxLimit(a)
}

function maxLimit({ model_refs }: Subscription): number {
  const limits = model_refs.flatMap(({ token_rate_limits = [] }) => token_rate_limits)
  return Math.max(0, ...limits.map(({ limit }) => limit))
}

const lifetimes = [1, 7, 30, 90, 180, 365]

interface FormProps {
  readonly onCancel: () => void
  readonly onCreated: (key: CreatedKey) => void
}

function Form({ onCancel, onCreated }: FormProps) {
  const { call } = useSession()
  const given = useLoaded('', async () => {
    const [subscriptions, { max_expiration_days: most }] = await Promise.all([
      call<readonly Subscription[]>('GET', '/v1/subscriptions'),
      call<Limits>('GET', '/v1/api-keys/config'),
    ])
    return { subscriptions: [...subscriptions].sort(byChoice), most }
  })
  const [subscription, setSubscription] = useState<string>()
  const [isEphemeral, setEphemeral] = useState(false)
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()

  if (given.value === undefined) return <Problem error={given.error} />
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

  async function create(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const text = (name: string) => String(form.get(name) ?? '').trim()
    const body: NewKeyBody = {
      name: text('name'),
      ...(text('description') !== '' && { description: text('description') }),
      subscription: text('subscription'),
      ...(text('labels') !== '' && { labels: labelsIn(text('labels')) }),
      ...(isEphemeral ? { ephemeral: true } : { expiresIn: text('lifetime') }),
    }
    setBusy(true)
    setError(undefined)
    try {
      onCreated(await call<CreatedKey>('POST', '/v1/api-keys', body))
    } catch (problem) {
      setError(problem as ApiError)
      setBusy(false)
    }
  }

  return (
    <form onSubmit={create}>
      <Stack>
        <TextInput
          name="name"
          label="Name"
          description="What will use it, so that you know it when you see it in the list."
          maxLength={128}
          autoComplete="off"
          required={!isEphemeral}
          data-autofocus
        />
        <TextInput name="description" label="Description" autoComplete="off" maxLength={1_024} />
        <LabelsField />
        <NativeSelect
          name="subscription"
          label="Subscription"
          description="It pays, and says which models the key may call."
          value={paying.subscription_id_header}
          onChange={({ currentTarget }) => setSubscription(currentTarget.value)}
          data={subscriptions.map(({ subscription_id_header: value, display_name }) => ({
            value,
            label: display_name ? `${display_name} (${value})` : value,
          }))}
        />
        <Paper withBorder p="sm">
          <Gives models={paying.model_refs} />
        </Paper>
        <NativeSelect
          name="lifetime"
          label="Lifetime"
          disabled={isEphemeral}
          defaultValue={`${Math.min(30, most)}d`}
          data={[...new Set([...lifetimes.filter((days) => days < most), most])].map((days) => ({
            value: `${days}d`,
            label: days === 1 ? '1 day' : `${days} days${days === most ? ', the longest' : ''}`,
          }))}
        />
        <Checkbox
          label="Ephemeral: lives for an hour, and is deleted soon after"
          checked={isEphemeral}
          onChange={({ currentTarget }) => setEphemeral(currentTarget.checked)}
        />
        <Problem error={error} />
        <Group justify="space-between">
          <Text size="xs" c="dimmed">
            The key is shown once.
          </Text>
          <Group>
            <Button variant="default" onClick={onCancel}>
              Cancel
            </Button>
            <Button type="submit" loading={isBusy}>
              Create key
            </Button>
          </Group>
        </Group>
      </Stack>
    </form>
  )
}
