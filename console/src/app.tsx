import {
  ActionIcon,
  Alert,
  AppShell,
  Burger,
  Button,
  Group,
  ScrollArea,
  Text,
  useMantineColorScheme,
} from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { type ReactNode, useCallback, useRef, useState } from 'react'
import { AccessPage } from './admin/access-page.tsx'
import { RefusalsPage } from './admin/refusals-page.tsx'
import { ResourcesPage } from './admin/resources-page.tsx'
import { StatePage } from './admin/state-page.tsx'
import { BudgetsPage } from './budgets/budgets-page.tsx'
import { everybody } from './budgets/shared.tsx'
import { useOpenRequests } from './budgets/use-open-requests.ts'
import { ExplainPage } from './explain/explain-page.tsx'
import { KeyPage } from './keys/key-page.tsx'
import { KeysPage } from './keys/keys-page.tsx'
import { MadeKeys } from './keys/show-key.tsx'
import { ModelPage } from './models/model-page.tsx'
import { ModelsPage } from './models/models-page.tsx'
import { endTryKeys } from './models/try-key.ts'
import { OverviewPage } from './overview/overview-page.tsx'
import { HiddenContext } from './parts/dialog.tsx'
import { hasOpenForm } from './parts/dialog-form.tsx'
import { Failure } from './parts/failure.tsx'
import { Icon, type IconName, Mark } from './parts/icon.tsx'
import { follow, Link } from './parts/link.tsx'
import { Nothing } from './parts/nothing.tsx'
import { some } from './parts/numbers.ts'
import { Page } from './parts/page.tsx'
import { distance, useTick } from './parts/time.tsx'
import { Toasts } from './parts/toast.tsx'
import { ReferencePage } from './reference/reference-page.tsx'
import { addressOf, usePlace, whenLeft } from './route.ts'
import { type Session, SessionContext } from './session.tsx'
import { SignIn } from './sign-in.tsx'
import { UsagePage } from './usage/usage-page.tsx'

interface Entry {
  readonly path: string
  readonly label: string
  readonly icon: IconName
  readonly page: () => ReactNode
  /** Also for the paths below it. */
  readonly inner?: () => ReactNode
}

const entries: readonly Entry[] = [
  { path: 'overview', label: 'Overview', icon: 'overview', page: () => <OverviewPage /> },
  {
    ...{ path: 'keys', label: 'API keys', icon: 'key' },
    page: () => <KeysPage />,
    inner: () => <KeyPage />,
  },
  {
    ...{ path: 'models', label: 'Models', icon: 'model' },
    page: () => <ModelsPage />,
    inner: () => <ModelPage />,
  },
  { path: 'usage', label: 'Usage', icon: 'usage', page: () => <UsagePage /> },
  { path: 'budgets', label: 'Budgets', icon: 'budget', page: () => <BudgetsPage /> },
  { path: 'explain', label: 'Why?', icon: 'why', page: () => <ExplainPage /> },
]

/** Shown to administrators. The API refuses them to other users. */
const administration: readonly Entry[] = [
  { path: 'access', label: 'Access', icon: 'access', page: () => <AccessPage /> },
  { path: 'resources', label: 'Resources', icon: 'resources', page: () => <ResourcesPage /> },
  { path: 'refusals', label: 'Refusals', icon: 'refusals', page: () => <RefusalsPage /> },
  { path: 'state', label: 'State', icon: 'state', page: () => <StatePage /> },
]

const reference: Entry = {
  ...{ path: 'reference', label: 'API reference', icon: 'reference' },
  page: () => <ReferencePage />,
}

const all = [...entries, ...administration, reference]

const ended = 'Your session has ended: the service no longer accepts the token.'

export function App() {
  const [session, setSession] = useState<Session>()
  const [notice, setNotice] = useState<string>()
  // The page of a session that has ended while a form was open: hidden, until its user signs in again.
  const [isHidden, setHidden] = useState(false)
  const onEnd = useCallback(() => {
    whenLeft(() => {
      setHidden(hasOpenForm())
      setSession((before) => (hasOpenForm() ? before : undefined))
      setNotice(ended)
    })
  }, [])
  const onSession = useCallback((begun: Session) => {
    setHidden(false)
    setSession(begun)
  }, [])
  const signOut = () => {
    session?.close()
    if (session) void endTryKeys(session)
    setNotice('You have signed out.')
    setSession(undefined)
  }
  const goOn = `${ended} Sign in again as ${session?.me.username}, and go on with the form.`
  return (
    <>
      {(session === undefined || isHidden) && (
        <SignIn
          notice={isHidden ? goOn : notice}
          keepsForm={isHidden}
          onSession={onSession}
          onEnd={onEnd}
        />
      )}
      {session && (
        <HiddenContext.Provider value={isHidden}>
          <SessionContext.Provider value={session}>
            <div
              key={JSON.stringify([session.me.username, session.me.credential])}
              hidden={isHidden}
            >
              <MadeKeys>
                <Shell session={session} signOut={signOut} />
              </MadeKeys>
            </div>
          </SessionContext.Provider>
        </HiddenContext.Provider>
      )}
    </>
  )
}

function Shell({ session, signOut }: { readonly session: Session; readonly signOut: () => void }) {
  const [isOpen, { toggle, close }] = useDisclosure()
  const burger = useRef<HTMLButtonElement>(null)
  const { path } = usePlace()
  const [first, ...below] = path.split('/')
  const open = all.find((each) => each.path === (first || 'overview'))
  const page = below.length > 0 ? open?.inner : open?.page
  const { me, expiresAt } = session
  const waiting = useOpenRequests(first ?? '')
  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 224, breakpoint: 'sm', collapsed: { mobile: !isOpen } }}
      padding={{ base: 'md', sm: 'xl' }}
    >
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger
              ref={burger}
              opened={isOpen}
              onClick={toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label="Menu"
              aria-expanded={isOpen}
            />
            <a
              className="brand mantine-focus-auto"
              href={addressOf('')}
              onClick={(event) => follow(event, addressOf(''))}
            >
              <Mark />
              Tollgate
            </a>
            <Text size="sm" c="dimmed" visibleFrom="md" ml="xs">
              {location.host}
            </Text>
          </Group>
          <Group gap="sm" wrap="nowrap" miw={0}>
            <span className="who" title={[me.username, ...me.groups].join(', ')}>
              <span className="initial" aria-hidden="true">
                {[...me.username][0]}
              </span>
              <span>
                <b>{me.username}</b>
                <small>{me.administrator ? 'Administrator' : me.groups.join(', ')}</small>
              </span>
            </span>
            <Scheme />
            <Button size="compact-sm" variant="default" flex="none" onClick={signOut}>
              Sign out
            </Button>
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar
        p="sm"
        component="nav"
        aria-label="Pages"
        data-closed={!isOpen}
        onKeyDown={({ key }) => {
          if (key !== 'Escape' || !isOpen) return
          close()
          burger.current?.focus()
        }}
      >
        <AppShell.Section grow component={ScrollArea}>
          <Entries {...{ entries, open, close, waiting }} />
          {me.administrator && (
            <>
              <div className="nav-title">Administration</div>
              <Entries entries={administration} {...{ open, close }} />
            </>
          )}
        </AppShell.Section>
        <AppShell.Section>
          <Entries entries={[reference]} {...{ open, close }} />
        </AppShell.Section>
      </AppShell.Navbar>
      {/* On a phone the open menu covers it. */}
      <AppShell.Main id="content" tabIndex={-1} onFocus={close}>
        <Toasts />
        <div className="within">
          <Expiry at={expiresAt} />
          <Failure key={path}>{page?.() ?? <Unknown />}</Failure>
        </div>
      </AppShell.Main>
    </AppShell>
  )
}

interface EntriesProps {
  readonly entries: readonly Entry[]
  readonly open: Entry | undefined
  readonly close: () => void
  /** Requests for increases that an administrator may decide. */
  readonly waiting?: number | undefined
}

function Entries({ entries, open, close, waiting = 0 }: EntriesProps) {
  const toDecide = some(waiting, 'open request')
  const isCounted = ({ path }: Entry) => path === 'budgets' && waiting > 0
  const placeOf = (entry: Entry) =>
    isCounted(entry) ? addressOf(entry.path, { owner: everybody }) : addressOf(entry.path)

  return (
    <ul className="nav">
      {entries.map((entry) => (
        <li key={entry.path}>
          <a
            className="mantine-focus-auto"
            href={placeOf(entry)}
            aria-current={entry === open ? 'page' : undefined}
            aria-description={isCounted(entry) ? toDecide : undefined}
            onClick={(event) => {
              follow(event, placeOf(entry))
              close()
            }}
          >
            <Icon name={entry.icon} />
            {entry.label}
            {isCounted(entry) && (
              <span className="badge" aria-hidden="true" title={toDecide}>
                {waiting}
              </span>
            )}
          </a>
        </li>
      ))}
    </ul>
  )
}

const schemes = { auto: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' } as const
const next = { auto: 'light', light: 'dark', dark: 'auto' } as const
const pictures = { auto: 'system', light: 'light', dark: 'dark' } as const

/** Selects the colour scheme; each click selects the next one. */
function Scheme() {
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      c="dimmed"
      aria-label={schemes[colorScheme]}
      title={schemes[colorScheme]}
      onClick={() => setColorScheme(next[colorScheme])}
    >
      <Icon name={pictures[colorScheme]} />
    </ActionIcon>
  )
}

const warnMs = 5 * 60_000

/** Warns in time that the identity token expires, and afterwards says that it has. */
function Expiry({ at }: { readonly at: number | undefined }) {
  useTick()
  const now = Date.now()
  if (at === undefined || at - now > warnMs) return null
  return (
    <Alert
      color="yellow"
      variant="outline"
      mb="lg"
      role="status"
      title={at > now ? 'Your token is about to expire' : 'Your token has expired'}
    >
      {at > now
        ? `It expires ${distance(at, now)}. Sign out and in again with a new one before you begin longer work.`
        : 'The gateway refuses it now. Sign out and in again with a new one.'}
    </Alert>
  )
}

function Unknown() {
  return (
    <Page title="There is no such page" about="This console has no page at this address.">
      <Nothing title="Nothing here">
        <Link to={addressOf('keys')}>Go to your API keys</Link>
      </Nothing>
    </Page>
  )
}
