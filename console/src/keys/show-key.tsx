import { Button, Code, Group, Modal, Stack, Tabs, Text } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import type { CreatedKey, Model } from '../api.ts'
import { Copy } from '../parts/copy.tsx'
import { Time } from '../parts/time.tsx'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { nameOf } from './caps.tsx'
import { snippets } from './snippets.ts'

interface KeyModalProps {
  /** Of the question that leads to the key. */
  readonly title: string
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly onMade: () => void
  /** The question; calls what it is given with the answer. */
  readonly children: (onMade: (key: CreatedKey) => void) => ReactNode
}

/** Asks, and then shows the key, which nothing but its own button closes. */
export function KeyModal({ title, isOpen, onClose, onMade, children }: KeyModalProps) {
  const [created, setCreated] = useState<CreatedKey>()
  const close = () => {
    setCreated(undefined)
    onClose()
  }
  const show = (key: CreatedKey) => {
    setCreated(key)
    onMade()
  }
  return (
    <Modal
      opened={isOpen}
      onClose={close}
      size="lg"
      title={created ? 'Copy your key now' : title}
      withCloseButton={created === undefined}
      closeOnClickOutside={false}
      closeOnEscape={created === undefined}
    >
      {created ? <ShowKey created={created} onDone={close} /> : isOpen && children(show)}
    </Modal>
  )
}

interface ShowKeyProps {
  readonly created: CreatedKey
  readonly onDone: () => void
}

/** The plaintext, once, and how to use it. */
function ShowKey({ created, onDone }: ShowKeyProps) {
  const { key, name, subscription, expiresAt, previous, models: only } = created
  const { call } = useSession()
  const models = useLoaded(subscription, () =>
    call<{ data: readonly Model[] }>('GET', '/v1/models'),
  )
  const [shown, setShown] = useState<string | null>('curl')
  const model = models.value?.data.find(
    ({ owned_by, subscriptions }) =>
      subscriptions.some((each) => each.name === subscription) &&
      (only?.some((each) => nameOf(each) === owned_by) ?? true),
  )
  const values = { gateway: location.origin, key, model: model?.id ?? 'your-model' }
  return (
    <Stack>
      <Text size="sm" className="breaks">
        This is the only time that the key <b>{name}</b> is shown. It pays with {subscription} and{' '}
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
      <Group gap="xs" wrap="nowrap">
        <Code fz="sm" p="xs" flex={1} className="secret" data-testid="key">
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
