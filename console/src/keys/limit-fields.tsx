/** Limits of a key by name, in a form and in words. */

import {
  ActionIcon,
  Button,
  Checkbox,
  Group,
  NativeSelect,
  Paper,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from '@mantine/core'
import { useState } from 'react'
import type { ApiKey } from '../api.ts'
import { textIn } from '../parts/dialog-form.tsx'
import { useEntryError, useFieldError } from '../parts/field-error.tsx'
import { Icon } from '../parts/icon.tsx'
import { windowIn } from '../parts/limits.tsx'
import { grouped, some, ungrouped, wholeIn } from '../parts/numbers.ts'

export type KeyLimit = NonNullable<ApiKey['limits']>[number]

type Kind = NonNullable<KeyLimit['of']>

const kinds: Readonly<Record<Kind, string>> = {
  tokens: 'Tokens',
  input: 'Input tokens',
  output: 'Output tokens',
  requests: 'Requests',
  concurrency: 'Requests at a time',
  cost: 'Cost',
}

interface LimitFieldsProps {
  readonly limits?: readonly KeyLimit[] | undefined
  /** Whether limits in force may be removed. */
  readonly mayDrop: boolean
}

/** Rows that can be added and removed. Their fields have the names in the API's messages. */
export function LimitFields({ limits = [], mayDrop }: LimitFieldsProps) {
  const [rows, setRows] = useState(() => limits.map((limit, id) => ({ id, limit })))
  const [next, setNext] = useState(limits.length)
  const error = useFieldError('limits')
  function add() {
    setRows([...rows, { id: next, limit: { name: '', limit: '', window: 'day' } }])
    setNext(next + 1)
  }
  return (
    <Stack gap="xs" role="group" aria-label="Further limits">
      <div>
        <Text size="sm" fw={500}>
          Further limits
        </Text>
        <Text size="xs" c="dimmed">
          For this key, also on cost or requests. Days, weeks and months follow its subscription’s
          calendar.
        </Text>
      </div>
      {rows.map(({ id, limit }, index) => (
        <Row
          key={id}
          {...{ index, limit }}
          onRemove={
            mayDrop || id >= limits.length
              ? () => setRows(rows.filter((row) => row.id !== id))
              : undefined
          }
        />
      ))}
      {error && (
        <Text size="xs" c="var(--no-ink)">
          {error}
        </Text>
      )}
      <Group>
        <Button
          variant="default"
          size="xs"
          leftSection={<Icon name="plus" size={14} />}
          onClick={add}
        >
          Add a limit
        </Button>
      </Group>
    </Stack>
  )
}

interface RowProps {
  readonly index: number
  readonly limit: KeyLimit
  readonly onRemove: (() => void) | undefined
}

function Row({ index, limit, onRemove }: RowProps) {
  const { name, of = 'tokens', window = '', models = [], enforce = true } = limit
  const [kind, setKind] = useState<string>(of)
  const error = useEntryError('limits', index)
  const field = (part: string) => ({
    name: `limits[${index}].${part}`,
    error: error?.part === part ? error.text : undefined,
    autoComplete: 'off',
    spellCheck: false,
  })
  const isNew = name === ''
  return (
    <Paper withBorder p="sm" role="group" aria-label={isNew ? 'New limit' : `Limit ${name}`}>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm" verticalSpacing="xs">
        <TextInput
          {...field('name')}
          label="Name"
          placeholder="daily"
          defaultValue={name}
          maxLength={63}
          autoFocus={isNew}
        />
        <NativeSelect
          {...field('of')}
          label="Counts"
          value={kind}
          onChange={({ currentTarget }) => setKind(currentTarget.value)}
          data={Object.entries(kinds).map(([value, label]) => ({ value, label }))}
        />
        <TextInput
          {...field('limit')}
          label="At most"
          placeholder={kind === 'cost' ? '5.00' : '100000'}
          inputMode="decimal"
          defaultValue={limit.limit}
        />
        {kind !== 'concurrency' && (
          <TextInput
            {...field('window')}
            label="In each"
            placeholder="day, week, month or 1h"
            defaultValue={window}
          />
        )}
      </SimpleGrid>
      <TextInput
        {...field('models')}
        mt="xs"
        label="Models"
        placeholder="all of the key"
        defaultValue={models.map(nameOf).join(', ')}
      />
      <Group justify="space-between" mt="sm" wrap="nowrap">
        <Checkbox
          name={`limits[${index}].watch`}
          label="Only count; never refuse"
          defaultChecked={!enforce}
        />
        {onRemove && (
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={isNew ? 'Remove the new limit' : `Remove ${name}`}
            onClick={onRemove}
          >
            <Icon name="cross" size={16} />
          </ActionIcon>
        )}
      </Group>
      {error && !parts.includes(error.part) && (
        <Text size="xs" c="var(--no-ink)" mt="xs">
          {error.text}
        </Text>
      )}
    </Paper>
  )
}

const parts: readonly (string | undefined)[] = ['name', 'of', 'limit', 'window', 'models']

/** The limits in a form. The API validates them. */
export function limitsIn(form: FormData): KeyLimit[] {
  const limits: KeyLimit[] = []
  while (form.has(`limits[${limits.length}].name`)) limits.push(limitIn(form, limits.length))
  return limits
}

function limitIn(form: FormData, index: number): KeyLimit {
  const text = (part: string) => textIn(form, `limits[${index}].${part}`)
  const of = text('of') as Kind
  const written = text('limit')
  const window = text('window')
  const models = text('models')
    .split(',')
    .filter((model) => model.trim() !== '')
  return {
    name: text('name'),
    ...(of !== 'tokens' && { of }),
    limit: of === 'cost' ? ungrouped(written) : wholeIn(written),
    ...(window !== '' && of !== 'concurrency' && { window }),
    ...(models.length > 0 && { models: models.map(toModel) }),
    ...(form.has(`limits[${index}].watch`) && { enforce: false }),
  }
}

/** `<namespace>/<name>` of a model. */
export function nameOf({ namespace = '', name }: { namespace?: string; name: string }): string {
  return `${namespace}/${name}`
}

/** The model of a name. */
export function toModel(written: string) {
  const [namespace = '', ...name] = written.trim().split('/')
  return { namespace, name: name.join('/') }
}

/** Equal for equal limits. */
export function limitKey({ name, of = 'tokens', limit, window, models, enforce = true }: KeyLimit) {
  return JSON.stringify([
    name,
    of,
    limit,
    window,
    models?.map(({ namespace, name }) => [namespace, name]),
    enforce,
  ])
}

/** `daily: 100,000 tokens per day`. */
export function inWords({
  name,
  of = 'tokens',
  limit,
  window,
  models,
  enforce = true,
}: KeyLimit): string {
  const per = window === undefined ? '' : ` per ${windowIn(window)}`
  const only = models ? ` of ${models.map(nameOf).join(', ')}` : ''
  return `${name}: ${amountIn(of, Number(limit), `${limit}`)}${per}${only}${enforce ? '' : ', only counted'}`
}

function amountIn(of: Kind, limit: number, written: string): string {
  if (of === 'cost') return `a cost of ${grouped(written)}`
  if (of === 'concurrency') return `${some(limit, 'request')} at a time`
  if (of === 'requests') return some(limit, 'request')
  return `${some(limit, 'token')}${of === 'tokens' ? '' : ` of ${of}`}`
}
