import { Button, Code, Group, Modal, Stack, Tabs, Text } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import type { CreatedKey, Model } from '../api.ts'
import { Copy } from '../parts/copy.tsx'
import { Time } from '../parts/time.tsx'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { snippets } from './snippets.ts'

interface KeyModalProps {
  /** Of the question that leads to the key. */
  readonly title: string
  readonly isOpen: boolean
  /** undefined: not yet. */
  readonly created: CreatedKey | undefined
  readonly onClose: () => void
  readonly children: ReactNode
}

/** Asks, and then shows the key, which nothing but its own button closes. */
export function KeyModal({ title, isOpen, created, onClose, children }: KeyModalProps) {
  return (
    <Modal
      opened={isOpen}
      onClose={onClose}
      size="lg"
      title={created ? 'Copy your key now' : title}
      withCloseButton={created === undefined}
      closeOnClickOutside={false}
      closeOnEscape={created === undefined}
    >
      {created ? <ShowKey created={created} onDone={onClose} /> : isOpen && children}
    </Modal>
  )
}

interface ShowKeyProps {
  readonly created: CreatedKey
  readonly onDone: () => void
}

/** The plaintext, once, and how to use it. */
function ShowKey({ created, onDone }: ShowKeyProps) {
  const { key, name, subscription, expiresAt, previous } = created
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
        {expiresAt ? (
          <>
            expires <Time at={expiresAt} isDistance />
          </>
        ) : (
          'never expires'
        )}
        .{' '}
        {previous && (
          <>
            The old secret works until <Time at={previous.endsAt} />.
          </>
        )}
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
