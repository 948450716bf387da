import {
  Alert,
  Button,
  Code,
  Container,
  Paper,
  PasswordInput,
  Stack,
  Text,
  Title,
} from '@mantine/core'
import { type FormEvent, useEffect, useState } from 'react'
import type { ApiError } from './api.ts'
import { Problem } from './parts/problem.tsx'
import { openSession, type Session } from './session.tsx'

interface SignInProps {
  /** Why the last session ended, if it did. */
  readonly notice: string | undefined
  readonly onSession: (session: Session) => void
  readonly onEnd: () => void
}

export function SignIn({ notice, onSession, onEnd }: SignInProps) {
  const [error, setError] = useState<ApiError>()
  const [isBusy, setBusy] = useState(false)

  useEffect(() => {
    document.title = 'Sign in · Tollgate'
  }, [])

  async function enter(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const token = String(new FormData(event.currentTarget).get('token')).trim()
    setBusy(true)
    setError(undefined)
    try {
      onSession(await openSession(token, onEnd))
    } catch (problem) {
      setError(problem as ApiError)
      setBusy(false)
    }
  }

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
        <Paper withBorder p="lg">
          <form onSubmit={enter}>
            <Stack>
              <PasswordInput
                name="token"
                label="Identity token"
                description="It stays in the memory of this page; reloading the page forgets it."
                autoComplete="off"
                spellCheck={false}
                visibilityToggleButtonProps={{ 'aria-label': 'Show the token' }}
                data-autofocus
                required
              />
              <Problem error={error} />
              <Button type="submit" loading={isBusy}>
                Sign in
              </Button>
            </Stack>
          </form>
        </Paper>
        <Text size="sm" c="dimmed">
          Your identity provider or cluster gives you the token, for example{' '}
          <Code>kubectl create token</Code>. An API key also signs in, but cannot create keys.
        </Text>
      </Stack>
    </Container>
  )
}
