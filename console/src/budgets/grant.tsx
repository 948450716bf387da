import { NativeSelect, SimpleGrid, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Propagation } from '../api.ts'
import { Dialog } from '../parts/dialog.tsx'
import { DialogForm, textIn } from '../parts/dialog-form.tsx'
import { fieldNames, useFieldError } from '../parts/field-error.tsx'
import { whole } from '../parts/limits.tsx'
import { endWith, PropagationNote } from '../parts/propagation.tsx'
import { refine, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { idOf, type Limit } from './budget.ts'
import { LimitCell } from './cells.tsx'
import { moreIn, namedOf, usualEnd } from './more.ts'
import { MoreFields, ReasonField } from './more-fields.tsx'

interface GrantProps {
  /** The shared limits. */
  readonly limits: readonly Limit[]
  readonly currency: string | undefined
  readonly onGranted: () => void
}

/** Grants an increase of the limit in the address, or of a typed one. */
export function Grant({ limits, currency, onGranted }: GrantProps) {
  const wanted = usePlace().query.get('raise')
  const onClose = () => refine({ raise: '' })
  const limit = limits.find((each) => idOf(each) === wanted)
  return (
    <Dialog opened={wanted !== null} onClose={onClose} title="Grant an increase">
      {wanted !== null && <Form {...{ limit, currency, onClose, onGranted }} />}
    </Dialog>
  )
}

interface FormProps extends Omit<GrantProps, 'limits'> {
  /** If undefined, the user types the limit. */
  readonly limit: Limit | undefined
  readonly onClose: () => void
}

function Form({ limit, currency, onClose, onGranted }: FormProps) {
  const { call } = useSession()
  const [propagation, setPropagation] = useState<Propagation>()

  async function grant(form: FormData) {
    const kind = limit?.kind ?? textIn(form, 'kind')
    const named = limit ? namedOf(limit) : writtenIn(form)
    const body = { ...named, ...moreIn(form, kind), reason: textIn(form, 'reason') }
    const granting = call<{ readonly propagation: Propagation }>(
      'POST',
      '/v1/admin/increases',
      body,
    )
    // Also after a lost response: the list shows whether it has taken effect.
    const answer = await granting.finally(onGranted)
    const granted = { done: 'Raised', name: named.name ?? '' }
    endWith(answer.propagation, granted, { onClose, onPending: setPropagation })
  }

  if (propagation) return <PropagationNote done="Raised" {...{ propagation, onClose }} />
  return (
    <DialogForm label="Grant" isRepeatable={false} onSubmit={grant} onCancel={onClose}>
      {limit ? (
        <Text size="sm" className="breaks" component="div">
          <LimitCell limit={limit} />
        </Text>
      ) : (
        <Written />
      )}
      <MoreFields
        about={limit ? `Now ${whole(limit, currency)}.` : 'Above the limit in the resource.'}
        until={usualEnd(limit?.resetsAt ?? null)}
      />
      <ReasonField about="Listed with the increase." />
    </DialogForm>
  )
}

/** The fields that name a limit that is not in the list, such as one per user. */
const fields = ['name', 'subscription', 'model', 'user', 'whom', 'keyId'] as const
const abouts = {
  name: 'Its name in spec.limits of the Subscription or ModelRef; if neither is given, of the Tenant.',
  subscription: 'The Subscription with the limit.',
  model: 'Or the ModelRef: namespace/name.',
  user: 'For a limit per user.',
  whom: 'Group or organization.',
  keyId: 'For a key’s own limit: the id of the key.',
} as const

function Written() {
  const [first, ...others] = fields
  return (
    <>
      <WrittenField name={first} />
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
        {others.map((name) => (
          <WrittenField key={name} name={name} />
        ))}
        <NativeSelect
          name="kind"
          label="Counts"
          description="Money has decimals."
          data={[
            { value: 'tokens', label: 'Tokens or requests' },
            { value: 'cost', label: 'Money' },
          ]}
        />
      </SimpleGrid>
    </>
  )
}

function WrittenField({ name }: { readonly name: (typeof fields)[number] }) {
  return (
    <TextInput
      name={name}
      error={useFieldError(name)}
      label={fieldNames[name]}
      description={abouts[name]}
      autoComplete="off"
      spellCheck={false}
      required={name === 'name'}
      data-autofocus={name === 'name' || undefined}
    />
  )
}

function writtenIn(form: FormData) {
  const written = fields.map((name) => [name, textIn(form, name)] as const)
  return {
    name: textIn(form, 'name'),
    ...Object.fromEntries(written.filter(([, text]) => text !== '')),
  }
}
