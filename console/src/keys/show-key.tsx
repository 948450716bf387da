import { Button, Code, Group, NativeSelect, Stack, Text } from '@mantine/core'
import {
  createContext,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useRef,
  useState,
} from 'react'
import type { CreatedKey, Model } from '../api.ts'
import { Copy } from '../parts/copy.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Time } from '../parts/time.tsx'
import { stay } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { agentSnippets } from './agent-snippets.ts'
import { nameOf } from './limit-fields.tsx'
import { exportKey, type Snippet, snippets } from './snippets.ts'

interface KeyModalProps {
  /** The title of the form. */
  readonly title: string
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly onMade: () => void
  /** The form; calls its argument with its request. */
  readonly children: (make: Make) => ReactNode
}

/** Shows the key that a request makes, on whatever page is open by then. Rejects as the request does. */
export type Make = (making: Promise<CreatedKey>) => Promise<void>

const ShowMadeContext = createContext<(key: CreatedKey) => void>(() => undefined)

/** Shows keys whose page was left before they were made: their plaintext would be lost. */
export function MadeKeys({ children }: { readonly children: ReactNode }) {
  const [waiting, setWaiting] = useState<readonly CreatedKey[]>([])
  const [made, ...others] = waiting
  const show = useCallback((key: CreatedKey) => setWaiting((before) => [...before, key]), [])
  // From the first to the last: between two, the page would be left for what waits for that.
  useStay(made !== undefined)
  return (
    <ShowMadeContext.Provider value={show}>
      {children}
      <Dialog
        {...{ opened: made !== undefined, onClose: () => undefined, size: 'lg', title: copyNow }}
        {...{ withCloseButton: false, closeOnEscape: false, closeOnClickOutside: false }}
      >
        {made && <ShowKey key={made.id} created={made} onDone={() => setWaiting(others)} />}
      </Dialog>
    </ShowMadeContext.Provider>
  )
}

const copyNow = 'Copy your key now'

/** Shows the form, then the key, which only its own button closes. */
export function KeyModal({ title, isOpen, onClose, onMade, children }: KeyModalProps) {
  const [created, setCreated] = useState<CreatedKey>()
  const close = () => {
    setCreated(undefined)
    onClose()
  }
  const showElsewhere = useContext(ShowMadeContext)
  const isHere = useRef(true)
  useEffect(() => {
    isHere.current = true
    return () => {
      isHere.current = false
    }
  }, [])
  const make: Make = async (making) => {
    const letGo = askBeforeUnload()
    try {
      const key = await making
      const show = isHere.current ? setCreated : showElsewhere
      show(key)
    } finally {
      letGo()
    }
    onMade()
  }
  return (
    <Dialog
      // A key that was created after the form was closed is shown, too: its plaintext would be lost.
      opened={isOpen || created !== undefined}
      onClose={close}
      size="lg"
      title={created ? copyNow : title}
      withCloseButton={created === undefined}
      closeOnEscape={created === undefined}
    >
      {created ? <ShowKey created={created} onDone={close} /> : isOpen && children(make)}
    </Dialog>
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

/** Asks before the page is closed or loaded again, until the result is called. */
function askBeforeUnload(): () => void {
  const ask = (event: Event) => event.preventDefault()
  addEventListener('beforeunload', ask)
  return () => removeEventListener('beforeunload', ask)
}

/** Keeps the page, also with the back button, since what it shows cannot be shown again. */
function useStay(isNeeded = true) {
  useEffect(() => {
    if (!isNeeded) return
    const leave = stay()
    const letGo = askBeforeUnload()
    return () => {
      leave()
      letGo()
    }
  }, [isNeeded])
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
      <Text size="sm" className="breaks opened" ref={focus} tabIndex={-1}>
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
