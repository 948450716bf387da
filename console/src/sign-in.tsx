import {
  Alert,
  Button,
  Code,
  Container,
  Divider,
  Group,
  Paper,
  PasswordInput,
  Stack,
  Text,
  Title,
} from '@mantine/core'
import { type FormEvent, useCallback, useEffect, useState } from 'react'
import type { ApiError } from './api.ts'
import {
  begin,
  beginBeside,
  finish,
  isReturning,
  readWays,
  stopWaiting,
  type Ways,
} from './code-flow.ts'
import { allowKeeping, forgetToken, keptToken } from './kept-token.ts'
import { Pending } from './parts/pending.tsx'
import { Problem } from './parts/problem.tsx'
import { hasSampleCode, sampleRoles, signInToSample } from './sample.ts'
import { openSession, type Session } from './session.tsx'
import { isOutage } from './use-loaded.ts'

interface SignInProps {
  /** Why the last session ended, if it did. */
  readonly notice: string | undefined
  /** Whether a form waits for its user, so that no other page may be opened in this tab. */
  readonly keepsForm: boolean
  readonly onSession: (session: Session) => void
  readonly onEnd: () => void
}

/** A provider's redirect is handled once, when the page is loaded. */
const returned = finish()
returned.catch(() => undefined)

const againMs = 5_000

function isIncomplete({ unavailable = [], isUnknown = false }: Ways): boolean {
  return isUnknown || unavailable.length > 0
}

/** The page before is gone, and the focus with it. */
function focus(node: HTMLElement | null) {
  node?.focus()
}

/** The token at load time: from a provider, or from before a reload. */
async function firstToken(): Promise<string | undefined> {
  return (await returned) ?? keptToken()
}

/** The state of a sign-in: the ways that the gateway offers, and a token that is being verified. */
function useSignIn({ notice, onSession, onEnd }: Omit<SignInProps, 'keepsForm'>) {
  const [error, setError] = useState<ApiError>()
  const [isBusy, setBusy] = useState(false)
  const [ways, setWays] = useState<Ways>()
  const [isRestoring, setRestoring] = useState(
    () => notice === undefined && (isReturning || keptToken() !== undefined),
  )

  const enter = useCallback(
    async (token: Promise<string | undefined>) => {
      setBusy(true)
      setError(undefined)
      try {
        const given = await token
        if (given !== undefined) onSession(await openSession(given, onEnd))
      } catch (problem) {
        if ((problem as ApiError).status === 401) forgetToken()
        setError(problem as ApiError)
      }
      setBusy(false)
    },
    [onSession, onEnd],
  )

  // Until all providers are known.
  useEffect(() => {
    if (ways === undefined || !isIncomplete(ways)) return undefined
    const timer = setTimeout(() => void readWays().then(setWays), againMs)
    return () => clearTimeout(timer)
  }, [ways])

  // A token from before a reload could not be verified, as while the gateway restarts.
  const triesAgain = error !== undefined && isOutage(error) && keptToken() !== undefined
  useEffect(() => {
    if (!triesAgain) return undefined
    const timer = setTimeout(() => void enter(Promise.resolve(keptToken())), againMs)
    return () => clearTimeout(timer)
  }, [triesAgain, enter])

  useEffect(() => stopWaiting, [])

  useEffect(() => {
    // A notice says that a session has ended, so this is not the first visit.
    const isFirst = notice === undefined
    if (!isFirst) forgetToken()
    void readWays().then((found) => {
      if (found.keepsToken !== undefined) allowKeeping(found.keepsToken)
      setWays(found)
      if (isFirst) void enter(firstToken()).then(() => setRestoring(false))
    })
  }, [enter, notice])

  return { error, isBusy, ways, isRestoring, triesAgain, enter }
}

/** A hidden page is shown again with its own title. */
function useTitle(title: string) {
  useEffect(() => {
    const before = document.title
    document.title = title
    return () => {
      document.title = before
    }
  }, [title])
}

export function SignIn({ keepsForm, ...props }: SignInProps) {
  const { notice } = props
  const { error, isBusy, ways, isRestoring, triesAgain, enter } = useSignIn(props)
  useTitle('Sign in · Tollgate')

  /** Begins a sign-in of the user's choice; an earlier token, perhaps of somebody else, is not tried again. */
  function choose(token: Promise<string | undefined>) {
    forgetToken()
    void enter(token)
  }

  const isOneClick = ways?.sampleUsers !== undefined && hasSampleCode()
  const hasWays = ways !== undefined && (ways.providers.length > 0 || isOneClick)
  const isElsewhere = error?.code === 'elsewhere'
  // The form would only flash, or is not needed.
  if (isRestoring || isElsewhere) {
    return (
      <Container size={440} py={80} component="main">
        <Title order={1}>Tollgate</Title>
        <Text c="dimmed" role="status">
          {isElsewhere ? error.message : `Signing in at ${location.host} …`}
        </Text>
        {isRestoring && <Pending shape="row" />}
      </Container>
    )
  }
  return (
    <Container size={440} py={80} component="main">
      <Stack gap="lg">
        <div>
          <Title order={1}>Tollgate</Title>
          <Text c="dimmed">API keys, models and limits at {location.host}</Text>
        </div>
        {notice && (
          <Alert color="yellow" variant="outline" role="status" ref={focus} tabIndex={-1}>
            {notice}
          </Alert>
        )}
        <Problem error={error} />
        {triesAgain && (
          <Text size="sm" role="status">
            This page tries again every {againMs / 1_000} seconds.
          </Text>
        )}
        <Paper withBorder p="lg">
          <Stack>
            {isOneClick && (
              <Sample
                users={ways.sampleUsers ?? []}
                isBusy={isBusy}
                onChoice={(user) => choose(signInToSample(user))}
              />
            )}
            {ways?.providers.map((provider) => (
              <Button
                key={provider.issuer}
                loading={isBusy}
                onClick={() => choose(keepsForm ? beginBeside(provider, enter) : begin(provider))}
              >
                Sign in with {provider.name}
              </Button>
            ))}
            {keepsForm && ways && ways.providers.length > 0 && (
              <Text size="sm" c="dimmed">
                A provider opens its page in a new tab. Your form stays in this one.
              </Text>
            )}
            {ways && <Missing {...ways} />}
            {hasWays && <Divider label="or" />}
            <TokenForm
              keepsToken={ways?.keepsToken !== false}
              isMain={!hasWays}
              isBusy={isBusy}
              onToken={(token) => choose(Promise.resolve(token))}
            />
          </Stack>
        </Paper>
        <Text size="sm" c="dimmed">
          {ways?.sampleUsers !== undefined && !isOneClick ? (
            'Open the link that npm start has printed to sign in to the sample with one click.'
          ) : (
            <>
              Your identity provider or cluster gives you the token, for example{' '}
              <Code>kubectl create token</Code>. An API key also signs in, but cannot create keys.
            </>
          )}
        </Text>
      </Stack>
    </Container>
  )
}

interface TokenFormProps {
  /** Whether a token may stay in this tab. */
  readonly keepsToken: boolean
  /** Whether there is no other way to sign in. */
  readonly isMain: boolean
  readonly isBusy: boolean
  readonly onToken: (token: string) => void
}

function TokenForm({ keepsToken, isMain, isBusy, onToken }: TokenFormProps) {
  function paste(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const token = String(new FormData(event.currentTarget).get('token')).trim()
    onToken(token.replace(/^bearer\s+/i, ''))
  }
  return (
    <form onSubmit={paste}>
      <Stack>
        <PasswordInput
          name="token"
          label="Identity token or API key"
          description={
            keepsToken
              ? 'A token stays in this tab until you sign out or it expires; a key is lost when the page is reloaded.'
              : 'It is only in the memory of this page, and lost when the page is reloaded.'
          }
          autoComplete="off"
          spellCheck={false}
          visibilityToggleButtonProps={{ 'aria-label': 'Show the token' }}
          required
        />
        <Button type="submit" variant={isMain ? 'filled' : 'default'} loading={isBusy}>
          Sign in
        </Button>
      </Stack>
    </form>
  )
}

/** Names the providers that cannot be used now. */
function Missing({ unavailable = [], isUnknown = false }: Ways) {
  if (!isUnknown && unavailable.length === 0) return null
  return (
    <Text size="sm" role="status">
      {isUnknown
        ? 'The gateway does not say now which identity providers it has.'
        : `${unavailable.join(', ')}: this identity provider does not respond to the gateway.`}{' '}
      This page asks again every {againMs / 1_000} seconds.
    </Text>
  )
}

interface SampleProps {
  readonly users: readonly string[]
  readonly isBusy: boolean
  readonly onChoice: (user: string) => void
}

function Sample({ users, isBusy, onChoice }: SampleProps) {
  return (
    <Stack gap="xs" component="section" aria-label="Sample identities">
      <Text size="sm">This is a sample. Look around as</Text>
      {users.map((user) => (
        <Group key={user} wrap="nowrap" gap="sm">
          <Button
            w={88}
            flex="none"
            loading={isBusy}
            onClick={() => onChoice(user)}
            aria-describedby={`role-of-${user}`}
          >
            {user}
          </Button>
          <Text id={`role-of-${user}`} size="sm" c="dimmed" lh={1.4}>
            {sampleRoles[user]}
          </Text>
        </Group>
      ))}
    </Stack>
  )
}
