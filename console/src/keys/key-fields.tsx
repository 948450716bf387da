import { TextInput } from '@mantine/core'
import { type ReactNode, useEffect, useRef } from 'react'
import type { ApiKey } from '../api.ts'
import { textIn } from '../parts/dialog-form.tsx'
import { useFieldError } from '../parts/field-error.tsx'
import { useSession } from '../session.tsx'
import { CapFields, capsIn } from './caps.tsx'
import { areLabelsChanged, LabelsField, labelsIn } from './labels.tsx'

interface KeyFieldsProps {
  /** Undefined for a new key. */
  readonly record?: ApiKey
  /** `<namespace>/<name>` of the models that its subscription pays for, if known. */
  readonly models: readonly string[]
  readonly isNameRequired?: boolean
  /** Content before the caps. */
  readonly children?: ReactNode
}

/** Fields that the holder of a key chooses and may change later. */
export function KeyFields({ record, models, isNameRequired = true, children }: KeyFieldsProps) {
  const { me } = useSession()
  const name = useRef<HTMLInputElement>(null)
  // The fields may be rendered after the dialog, which then has focused something else.
  useEffect(() => name.current?.focus(), [])
  return (
    <>
      <TextInput
        ref={name}
        name="name"
        error={useFieldError('name')}
        label="Name"
        description="What uses the key, so that you recognize it in the list."
        defaultValue={record?.name}
        maxLength={128}
        autoComplete="off"
        required={isNameRequired}
      />
      {children}
      <TextInput
        name="description"
        error={useFieldError('description')}
        label="Description"
        defaultValue={record?.description}
        maxLength={1_024}
        autoComplete="off"
      />
      <LabelsField labels={record?.labels} />
      <CapFields {...(record && { caps: record })} models={models} mayWiden={me.administrator} />
    </>
  )
}

/** The fields for a request that creates a key. */
export function keyFieldsIn(form: FormData) {
  return {
    name: textIn(form, 'name'),
    description: textIn(form, 'description'),
    labels: labelsIn(form),
    ...capsIn(form),
  }
}

/** The fields that differ from those in `record`: others may have changed the rest since it was read. */
export function changesIn(form: FormData, record: ApiKey) {
  const isChanged = (name: 'name' | 'description') =>
    form.get(name) !== (record[name] ?? '').replace(/[\r\n]/g, '')
  return {
    ...(isChanged('name') && { name: textIn(form, 'name') }),
    ...(isChanged('description') && { description: textIn(form, 'description') }),
    ...(areLabelsChanged(form, record) && { labels: labelsIn(form, record) }),
    ...capsIn(form, record),
  }
}
