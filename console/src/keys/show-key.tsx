import { Button, Code, Group, Stack, Tabs, Text } from '@mantine/core'
import { useState } from 'react'
import type { CreatedKey, Model } from '../api.ts'
import { Copy } from '../parts/copy.tsx'
import { Time } from '../parts/time.tsx'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { snippets } from './snippets.ts'

interface ShowKeyProps {
  readonly created: CreatedKey
  readonly onDone: () => void
}

/** The plaintext, once, and how to use it. */
export function ShowKey({ created, onDone }: ShowKeyProps) {
  const { key, name, subscription, expiresAt } = created
  const { call } = useSession()
  const models = useLoaded(subscription, () =>
    call<{ data: readonly Model[] }>('GET', '/v1/models'),
  )
  const [shown, setShown] = useState<string | null>('curl')
  const model = models.value?.data.find(({ subscriptions }) =>
    subscriptions.some((each) => each.name === subscription),
  )
  const values = { gateway: location.origin, key, model: model?.id ?? 'your-model' }
  return (
    <Stack>
      <Text size="sm" className="breaks">
        This is the only time that the key <b>{name}</b> is shown. It pays with {subscription} and
        expires <Time at={expiresAt} isDistance />.
      </Text>
      <Group gap="xs" align="center">
        <Code fz="sm" p="xs" className="breaks" data-testid="key">
          {key}
        </Code>
        <Copy value={key} label="Copy key" />
      </Group>
      <Tabs value={shown} onChange={setShown} keepMounted={false}>
        <Tabs.List aria-label="How to use it">
          {snippets.map(({ id, label }) => (
            <Tabs.Tab key={id} value={id}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {snippets.map(({ id, hint, text }) => (
          <Tabs.Panel key={id} value={id} pt="sm">
            <Group justify="space-between" mb={4}>
              <Text size="xs" c="dimmed">
                {hint}
              </Text>
              <Copy value={text(values)} />
            </Group>
            <Code block tabIndex={0} data-testid="snippet">
              {text(values)}
            </Code>
          </Tabs.Panel>
        ))}
      </Tabs>
      <Group justify="flex-end">
        <Button onClick={onDone}>I have copied it</Button>
      </Group>
    </Stack>
  )
}
