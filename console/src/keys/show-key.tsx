import { Button, Code, Group, Modal, NativeSelect, Stack, Text } from '@mantine/core'
import { type ReactNode, useEffect, useState } from 'react'
import type { CreatedKey, Model } from '../api.ts'
import { Copy } from '../parts/copy.tsx'
import { Time } from '../parts/time.tsx'
import { stay } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { agentSnippets } from './agent-snippets.ts'
import { nameOf } from './caps.tsx'
import { exportKey, type Snippet, snippets } from './snippets.ts'

interface KeyModalProps {
  /** The title of the form. */
  readonly title: string
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly onMade: () => void
  /** The form; calls its argument with the result. */
  readonly children: (onMade: (key: CreatedKey) => void) => ReactNode
}

/** Shows the form, then the key, which only its own button closes. */
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
      // A key that was created after the form was closed is shown, too: its plaintext would be lost.
      opened={isOpen || created !== undefined}
      onClose={close}
      size="lg"
      title={created ? 'Copy your key now' : title}
      withCloseButton={created === undefined}
      closeOnEscape={created === undefined}
    >
      {created ? <ShowKey created={created} onDone={close} /> : isOpen && children(show)}
    </Modal>
  )
}

const all = [...snippets, ...agentSnippets] as [Snippet, ...Snippet[]]

function toItem({ id, label }: Snippet) {
  return { value: id, label }
}

/**
 * For content that replaces the form in an open dialog: the focused button no longer exists, and a screen reader would
 * be silent.
 */
function focus(node: HTMLElement | null) {
  node?.focus()
}

interface ShowKeyProps {
  readonly created: CreatedKey
  readonly onDone: () => void
}

/** Keeps the page, also with the back button, since what it shows cannot be shown again. */
function useStay() {
  useEffect(() => {
    const ask = (event: Event) => event.preventDefault()
    const leave = stay()
    addEventListener('beforeunload', ask)
    return () => {
      leave()
      removeEventListener('beforeunload', ask)
    }
  }, [])
}

/** The plaintext, once, and how to use it. */
function ShowKey({ created, onDone }: ShowKeyProps) {
  const { key, name, subscription, expiresAt, previous, models: only } = created
  const { call } = useSession()
  useStay()
  const models = useLoaded(subscription, () =>
    call<{ data: readonly Model[] }>('GET', '/v1/models'),
  )
  const [shown, setShown] = useState('curl')
  const snippet = all.find(({ id }) => id === shown) ?? all[0]
  const model = models.value?.data.find(
    ({ owned_by, subscriptions }) =>
      subscriptions.some((each) => each.name === subscription) &&
      (only?.some((each) => nameOf(each) === owned_by) ?? true),
  )
  const text = snippet.text({ gateway: location.origin, key, model: model?.id ?? 'your-model' })
  return (
    <Stack>
      <Text size="sm" className="breaks" ref={focus} tabIndex={-1} style={{ outline: 'none' }}>
        This is the only time that the key <b>{name}</b> is shown. Its subscription is{' '}
        {subscription}, and it{' '}
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
      <div className="secret-row">
        <Code fz="sm" flex={1} className="secret" data-testid="key">
          {key}
        </Code>
        <Copy value={key} label="Copy key" isMain />
      </div>
      <Text size="sm" fw={600} component="h2" mt="xs">
        1. Put it into the environment
      </Text>
      <div className="lines">
        <Code block tabIndex={0}>
          {exportKey('sk-…')}
        </Code>
        <Copy value={exportKey(key)} label="Copy line" />
      </div>
      <Group justify="space-between" align="flex-end" gap="xs" mt="xs">
        <Text size="sm" fw={600} component="h2">
          2. Use it
        </Text>
        <NativeSelect
          aria-label="Use it with"
          size="xs"
          data={[
            { group: 'Shell and libraries', items: snippets.map(toItem) },
            { group: 'Coding agents', items: agentSnippets.map(toItem) },
          ]}
          value={snippet.id}
          onChange={({ currentTarget }) => setShown(currentTarget.value)}
        />
      </Group>
      <div className="lines">
        <Code block tabIndex={0} mah={260} data-testid="snippet">
          {text}
        </Code>
        <Copy value={text} label="Copy lines" />
      </div>
      <Text size="xs" c="dimmed">
        {snippet.hint ?? 'For a shell.'}
      </Text>
      <Group justify="flex-end">
        <Button onClick={onDone}>I have copied it</Button>
      </Group>
    </Stack>
  )
}
