import { Textarea, TextInput } from '@mantine/core'
import { useFieldError } from '../parts/field-error.tsx'
import { maxDays, toField } from './more.ts'

interface MoreFieldsProps {
  /** What there is now, or what it may be. */
  readonly about: string
  readonly limit?: number | string
  /** Milliseconds since the epoch. */
  readonly until: number
  /** Left out: within the days that more may last. */
  readonly latest?: number
}

/** How much, and how long. */
export function MoreFields({ about, limit, until, latest }: MoreFieldsProps) {
  const end = latest ?? Date.now() + maxDays * 86_400_000
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
        min={toField(Date.now())}
        max={toField(end)}
        required
      />
    </>
  )
}

/** Why it is asked for, given or not given. */
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
