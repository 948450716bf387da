import {
  Alert,
  Button,
  Code,
  Container,
  Divider,
  Paper,
  PasswordInput,
  Stack,
  Text,
  Title,
} from '@mantine/core'
import { type FormEvent, useCallback, useEffect, useState } from 'react'
import type { ApiError } from './api.ts'
import { begin, finish, type Provider, readProviders } from './code-flow.ts'
import { Problem } from './parts/problem.tsx'
import { openSession, type Session } from './session.tsx'

interface SignInProps {
  /** Why the last session ended, if it did. */
  readonly notice: string | undefined
  readonly onSession: (session: Session) => void
  readonly onEnd: () => void
}

/** The browser comes back from a provider once, when the page is loaded. */
const returned = finish()
returned.catch(() => undefined)

export function SignIn({ notice, onSession, onEnd }: SignInProps) {
  const [error, setError] = useState<ApiError>()
  const [isBusy, setBusy] = useState(false)
  const [providers, setProviders] = useState<readonly Provider[]>()

  const enter = useCallback(
    async (token: Promise<string | undefined>) => {
      setBusy(true)
      setError(undefined)
      try {
        const given = await token
        if (given !== undefined) onSession(await openSession(given, onEnd))
      } catch (problem) {
        setError(problem as ApiError)
      }
      setBusy(false)
    },
    [onSession, onEnd],
  )

  useEffect(() => {
    document.title = 'Sign in · Tollgate'
    void readProviders().then(setProviders)
    // A notice says that a session has ended, so this is not the first time.
    if (notice === undefined) void enter(returned)
  }, [enter, notice])

  function paste(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const token = String(new FormData(event.currentTarget).get('token')).trim()
    void enter(Promise.resolve(token))
  }

  const hasProviders = providers !== undefined && providers.length > 0
  return (
    <Container size={440} py={80} component="main">
      <Stack gap="lg">
        <div>
          <Title order={1}>Tollgate</Title>
          <Text c="dimmed">API keys, models and limits at {location.host}</Text>
        </div>
        {notice && (
          <Alert color="yellow" variant="outline" role="status">
            {notice}
          </Alert>
        )}
        <Problem error={error} />
        <Paper withBorder p="lg">
          <Stack>
            {providers?.map((provider) => (
              <Button
                key={provider.issuer}
                loading={isBusy}
                onClick={() => void enter(begin(provider))}
              >
                Sign in with {new URL(provider.issuer).host}
              </Button>
            ))}
            {hasProviders && <Divider label="or" />}
            <form onSubmit={paste}>
              <Stack>
                <PasswordInput
                  name="token"
                  label="Identity token"
                  description="It stays in the memory of this page; reloading the page forgets it."
                  autoComplete="off"
                  spellCheck={false}
                  visibilityToggleButtonProps={{ 'aria-label': 'Show the token' }}
                  required
                />
                <Button
                  type="submit"
                  variant={hasProviders ? 'default' : 'filled'}
                  loading={isBusy}
                >
                  Sign in
                </Button>
              </Stack>
            </form>
          </Stack>
        </Paper>
        <Text size="sm" c="dimmed">
          Your identity provider or cluster gives you the token, for example{' '}
          <Code>kubectl create token</Code>. An API key also signs in, but cannot create keys.
        </Text>
      </Stack>
    </Container>
  )
}
