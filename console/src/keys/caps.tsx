/** Caps of a key: in a form, in requests, in the table. */

import { Checkbox, Group, Stack, Text, Textarea, TextInput } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import type { ApiKey } from '../api.ts'
import { linesIn, textIn } from '../parts/dialog-form.tsx'
import { useFieldError } from '../parts/field-error.tsx'
import { LimitList } from '../parts/limits.tsx'
import { wholeIn } from '../parts/numbers.ts'
import { inWords, LimitFields, limitKey, limitsIn, nameOf, toModel } from './limit-fields.tsx'

const names = ['models', 'tokenRateLimits', 'limits', 'allowedAddresses'] as const

export type Caps = Pick<ApiKey, (typeof names)[number]>

/** In the form of requests; null removes one. */
export type CapChanges = { readonly [Name in keyof Caps]?: Caps[Name] | null }

interface CapFieldsProps {
  /** The current caps; a new key has none. */
  readonly caps?: Caps
  /** `<namespace>/<name>` of the models that the subscription pays for, if known. */
  readonly models: readonly string[]
  readonly mayWiden: boolean
}

export function CapFields({ caps, models, mayWiden }: CapFieldsProps) {
  const present = toLines(caps)
  const known = [...new Set([...present.models, ...models])]
  // Also those that the subscription does not have: another one may.
  const [chosen, setChosen] = useState<readonly string[]>(present.models)
  const dropped = chosen.filter((model) => !known.includes(model))
  const errors = {
    models: useFieldError('models'),
    tokenRateLimits: useFieldError('tokenRateLimits'),
    allowedAddresses: useFieldError('allowedAddresses'),
  }
  const isOpen = (model: string) => caps?.models === undefined || present.models.includes(model)
  return (
    <details open={names.some((name) => present[name].length > 0)}>
      <Text component="summary" size="sm" fw={500}>
        Restrictions
      </Text>
      <Stack mt="sm">
        <Text size="xs" c="dimmed">
          You can always tighten these: fewer models, lower or further limits, networks within the
          current ones. {mayWiden ? 'As an administrator you can' : 'Only an administrator can'}{' '}
          loosen or lift them.
        </Text>
        <Checkbox.Group
          label="Models"
          error={errors.models}
          description="Models that the key may call. If none is chosen, it may call all models of its subscription."
          value={[...chosen]}
          onChange={setChosen}
        >
          <Group gap="sm" mt="xs">
            {known.map((model) => (
              <Checkbox
                key={model}
                name="model"
                value={model}
                label={model}
                className="breaks"
                disabled={!mayWiden && !isOpen(model)}
              />
            ))}
          </Group>
          <Text size="xs" mt="xs" c="var(--wait-ink)" className="breaks" role="status">
            {dropped.length > 0 && `The subscription does not have ${dropped.join(', ')}.`}
            {dropped.length > 0 &&
              dropped.length === chosen.length &&
              ' Unless you choose another model, the key may call all models of the subscription.'}
          </Text>
        </Checkbox.Group>
        {mayWiden && caps && (
          <TextInput
            name="models"
            label="Further models"
            description="namespace/name, separated by commas."
            autoComplete="off"
            spellCheck={false}
          />
        )}
        <Textarea
          name="tokenRateLimits"
          error={errors.tokenRateLimits}
          label="Token limits"
          description="For this key, for all its models together. One per line, such as 10000/1h."
          autosize
          defaultValue={present.tokenRateLimits.join('\n')}
          autoComplete="off"
          spellCheck={false}
        />
        <LimitFields limits={caps?.limits} mayDrop={mayWiden} />
        <Textarea
          name="addresses"
          error={errors.allowedAddresses}
          label="Networks"
          description="Networks that the key may be used from. One per line, such as 192.0.2.0/24."
          autosize
          defaultValue={present.allowedAddresses.join('\n')}
          autoComplete="off"
          spellCheck={false}
        />
      </Stack>
    </details>
  )
}

/** The caps in a form that differ from the caps in `from`. The API validates them. */
export function capsIn(form: FormData, from?: Caps): CapChanges {
  const further = textIn(form, 'models').split(',')
  const models = [...form.getAll('model').map(String), ...further.map((name) => name.trim())]
  const written: Caps = {
    models: models.filter((name) => name !== '').map(toModel),
    tokenRateLimits: linesIn(form, 'tokenRateLimits').map(toLimit),
    limits: limitsIn(form),
    allowedAddresses: [...linesIn(form, 'addresses')],
  }
  const [before, after] = [toLines(from), toLines(written)]
  const changed = names.filter((name) => before[name].join('\n') !== after[name].join('\n'))
  return Object.fromEntries(
    changed.map((name) => [name, after[name].length === 0 ? null : written[name]]),
  )
}

/** The caps of a key in the table. */
export function CapList(caps: Caps) {
  const { models, tokenRateLimits, limits = [], allowedAddresses } = caps
  return (
    <>
      {models && <Line>only {toLines(caps).models.join(', ') || 'no model'}</Line>}
      {tokenRateLimits && (
        <Line>
          at most <LimitList token_rate_limits={tokenRateLimits} />
        </Line>
      )}
      {limits.map((limit) => (
        <Line key={limit.name}>{inWords(limit)}</Line>
      ))}
      {allowedAddresses && <Line>from {allowedAddresses.join(', ')}</Line>}
    </>
  )
}

function Line({ children }: { readonly children: ReactNode }) {
  return <div className="note">{children}</div>
}

/** The text for the form. */
function toLines({
  models = [],
  tokenRateLimits = [],
  limits = [],
  allowedAddresses = [],
}: Caps = {}) {
  return {
    models: models.map(nameOf),
    tokenRateLimits: tokenRateLimits.map(({ limit, window }) => `${limit}/${window}`),
    limits: limits.map(limitKey),
    allowedAddresses,
  }
}

function toLimit(written: string) {
  const [limit = '', ...window] = written.split('/')
  return { limit: wholeIn(limit), window: window.join('/').trim() }
}
