import { Button, Group, Stack, Text } from '@mantine/core'
import { type FormEvent, type ReactNode, useEffect, useState } from 'react'
import type { ApiError } from '../api.ts'
import { FieldErrorContext, fieldErrorOf } from './field-error.tsx'
import { Problem } from './problem.tsx'

let openForms = 0

/** Whether something may have been entered that would be lost with the page. */
export function hasOpenForm(): boolean {
  return openForms > 0
}

function keepForm() {
  openForms += 1
  return () => {
    openForms -= 1
  }
}

interface DialogFormProps {
  /** The labels of the submit and the cancel button. */
  readonly label: string
  readonly cancel?: string
  /** The colour of the submit button; red for irreversible actions. */
  readonly color?: string
  readonly isDisabled?: boolean
  /** Next to the buttons. */
  readonly note?: string
  /** Whether `onSubmit` may be repeated after a lost response: if not, a second one has an effect of its own. */
  readonly isRepeatable?: boolean
  /** Rejects with an ApiError, which is shown; the input is not cleared. */
  readonly onSubmit: (form: FormData) => Promise<void>
  readonly onCancel: () => void
  readonly children: ReactNode
}

/** The form of a dialog. */
export function DialogForm({ onSubmit, onCancel, children, ...rest }: DialogFormProps) {
  const { label, cancel = 'Cancel', color, isDisabled = false, isRepeatable = true, note } = rest
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()
  useEffect(keepForm, [])

  async function send(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = event.currentTarget
    setBusy(true)
    setError(undefined)
    try {
      await onSubmit(new FormData(form))
    } catch (problem) {
      // This one ends the session, and the form is sent again in the next.
      if ((problem as ApiError).status !== 401) setError(problem as ApiError)
      const { field = '', index, part } = fieldErrorOf(problem as ApiError) ?? {}
      const entry = form.elements.namedItem(`${field}[${index}].${part}`)
      const wrong = entry ?? form.elements.namedItem(field)
      if (wrong instanceof HTMLElement) wrong.focus()
    }
    setBusy(false)
  }

  const atField = error && fieldErrorOf(error)
  return (
    // Only the API reports faults, in one language and at the field.
    <form onSubmit={send} noValidate>
      <Stack>
        <FieldErrorContext.Provider value={atField}>{children}</FieldErrorContext.Provider>
        <Problem error={atField ? undefined : error} isRepeatable={isRepeatable} />
        <Group justify="flex-end">
          {note && (
            <Text size="xs" c="dimmed" flex={1}>
              {note}
            </Text>
          )}
          <Button variant="default" onClick={onCancel}>
            {cancel}
          </Button>
          <Button type="submit" loading={isBusy} disabled={isDisabled} {...(color && { color })}>
            {label}
          </Button>
        </Group>
      </Stack>
    </form>
  )
}

/** A text of a form, trimmed. */
export function textIn(form: FormData, name: string): string {
  return String(form.get(name) ?? '').trim()
}

/** The nonblank lines of a text of a form. */
export function linesIn(form: FormData, name: string): readonly string[] {
  const lines = textIn(form, name).split('\n')
  return lines.map((line) => line.trim()).filter((line) => line !== '')
}
