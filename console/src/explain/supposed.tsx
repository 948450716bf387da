import { Button, NativeSelect, SimpleGrid, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { ApiKey } from '../api.ts'
import { readOffers } from '../models/offers.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { QuestionForm } from './question-form.tsx'

interface SupposedProps {
  readonly query: URLSearchParams
  /** The caller's own keys, if they are loaded. */
  readonly keys: readonly ApiKey[]
}

/** A question about a hypothetical request, chosen from the caller's keys and models. */
export function Supposed({ query, keys }: SupposedProps) {
  const { call, me } = useSession()
  const [key, setKey] = useState(query.get('key') ?? '')
  const offers = useLoaded('', () => readOffers(call))
  const subscriptions = new Map(
    offers.value?.flatMap((offer) =>
      offer.subscriptions.map((each) => [each.subscription_id_header, each.display_name] as const),
    ),
  )
  const given = query.get('subscription') ?? ''
  if (given !== '' && !subscriptions.has(given)) subscriptions.set(given, undefined)
  const known = keys.some(({ id }) => id === key)
  return (
    <QuestionForm isColumn>
      <TextInput
        name="model"
        label="Model"
        placeholder="As in the body, or namespace/name"
        defaultValue={query.get('model') ?? ''}
        list="models"
        autoComplete="off"
        required
      />
      <datalist id="models">
        {offers.value?.map(({ model }) => (
          <option key={`${model.owned_by} ${model.id}`} value={model.id}>
            {model.owned_by}
          </option>
        ))}
      </datalist>
      <NativeSelect
        name="key"
        label="Key"
        value={key}
        onChange={({ currentTarget }) => setKey(currentTarget.value)}
        data={[
          { value: '', label: 'Any of mine' },
          ...(key !== '' && !known ? [{ value: key, label: key }] : []),
          ...keys.map(({ id, name, subscription }) => ({
            value: id,
            label: `${name} (${subscription})`,
          })),
        ]}
      />
      {key === '' && (
        <NativeSelect
          key={subscriptions.size}
          name="subscription"
          label="Subscription"
          defaultValue={given}
          data={[
            { value: '', label: 'Any of mine' },
            ...[...subscriptions].map(([value, display]) => ({
              value,
              label: display ? `${display} (${value})` : value,
            })),
          ]}
        />
      )}
      {me.administrator && key === '' && (
        <SimpleGrid cols={2}>
          <TextInput
            name="user"
            label="User"
            placeholder="You"
            defaultValue={query.get('user') ?? ''}
          />
          <TextInput
            name="groups"
            label="Groups of the user"
            placeholder="Separated by commas"
            defaultValue={query.get('groups') ?? ''}
          />
        </SimpleGrid>
      )}
      <Button type="submit">Would it pass?</Button>
    </QuestionForm>
  )
}
