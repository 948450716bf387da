import { Textarea, TextInput } from '@mantine/core'
import { now } from '../clock.ts'
import { useFieldError } from '../parts/field-error.tsx'
import { maxDays, toField } from './more.ts'

interface MoreFieldsProps {
  /** The current limit, or the requested one. */
  readonly about: string
  readonly limit?: number | string
  /** Milliseconds since the epoch. */
  readonly until: number
  /** If omitted, any time within the maximum duration of an increase. */
  readonly latest?: number
}

/** The amount and the end of an increase. */
export function MoreFields({ about, limit, until, latest }: MoreFieldsProps) {
  const end = latest ?? now() + maxDays * 86_400_000
  return (
    <>
      <TextInput
        name="limit"
        error={useFieldError('limit')}
        label="Limit"
        description={about}
        defaultValue={limit}
        inputMode="decimal"
        autoComplete="off"
        spellCheck={false}
        required
        data-autofocus
      />
      <TextInput
        type="datetime-local"
        name="until"
        error={useFieldError('until')}
        label="Until"
        description={
          latest === undefined
            ? `When it ends by itself, within ${maxDays} days; in your time zone.`
            : 'Not after the requested time; in your time zone.'
        }
        defaultValue={toField(until)}
        min={toField(now())}
        max={toField(end)}
        required
      />
    </>
  )
}

/** The reason for a request or a decision. */
export function ReasonField({ about, isRequired = true }: { about: string; isRequired?: boolean }) {
  return (
    <Textarea
      name="reason"
      error={useFieldError('reason')}
      label="Reason"
      description={about}
      autosize
      minRows={2}
      maxRows={6}
      maxLength={256}
      required={isRequired}
    />
  )
}
