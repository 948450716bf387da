import { Button, Code, Group, NumberInput, Stack, Table, Text, Textarea } from '@mantine/core'
import { type FormEvent, useEffect, useRef, useState } from 'react'
import type { ApiError, Model } from '../api.ts'
import { Link } from '../parts/link.tsx'
import { duration } from '../parts/numbers.ts'
import { Panel } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { addressOf } from '../route.ts'
import { useSession } from '../session.tsx'
import { type ChatAnswer, chat } from './chat.ts'
import { forgetTryKey, tryKeyOf } from './try-key.ts'

interface TryItProps {
  readonly model: Model
  readonly subscription: string
  /** Called after a call, which may have changed the limits' usage. */
  readonly onAnswered: () => void
}

/** Sends a prompt to a model and shows the answer as it arrives, or the refusal. */
export function TryIt({ model, subscription, onAnswered }: TryItProps) {
  const session = useSession()
  const [text, setText] = useState<string>()
  const [answer, setAnswer] = useState<ChatAnswer>()
  const [error, setError] = useState<ApiError>()
  const [running, setRunning] = useState<AbortController>()
  const [maxTokens, setMaxTokens] = useState<number | string>(100)
  const current = useRef<AbortController>(undefined)
  useEffect(() => () => current.current?.abort(), [])

  async function ask(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    // Enter sends a form that has no button for it, too.
    if (running) return
    const prompt = String(new FormData(event.currentTarget).get('prompt'))
    const control = new AbortController()
    current.current = control
    setRunning(control)
    setError(undefined)
    setAnswer(undefined)
    setText('')
    try {
      const key = await tryKeyOf(session, subscription)
      const request = {
        ...{ key, prompt, owner: model.owned_by, model: model.id },
        maxTokens: Number(maxTokens) || 100,
      }
      const add = (piece: string) => setText((before = '') => before + piece)
      setAnswer(await chat(request, add, control.signal))
    } catch (problem) {
      if (!control.signal.aborted) setError(problem as ApiError)
      if ((problem as ApiError).status === 401) forgetTryKey(session, subscription)
    }
    setRunning(undefined)
    onAnswered()
  }

  return (
    <Panel title="Try it">
      <form onSubmit={ask}>
        <Stack gap="sm">
          <Textarea
            name="prompt"
            label="Prompt"
            autosize
            minRows={2}
            defaultValue="Say hello."
            required
          />
          <Group align="flex-end">
            <NumberInput
              label="Max. tokens"
              value={maxTokens}
              onChange={setMaxTokens}
              min={1}
              max={10_000}
              w={140}
              hideControls
            />
            {running ? (
              <Button variant="default" onClick={() => running.abort()}>
                Stop
              </Button>
            ) : (
              <Button type="submit">Send</Button>
            )}
          </Group>
        </Stack>
      </form>
      <Text size="xs" c="dimmed" mt="xs">
        {session.ownKey === undefined
          ? 'Sent with an ephemeral key created for this; it counts like any call.'
          : 'Sent with the key that you are signed in with.'}
      </Text>
      {error && (
        <Stack mt="md" gap="xs">
          <Problem error={error} />
          {error.requestId && (
            <Text size="sm">
              <Link to={addressOf('explain', { request: error.requestId })}>Why?</Link>
            </Text>
          )}
        </Stack>
      )}
      {text !== undefined && (text !== '' || !error) && (
        <Text size="sm" className="answer breaks" mt="md" aria-live="polite" data-testid="answer">
          {text}
        </Text>
      )}
      {answer && <Facts {...answer} />}
    </Panel>
  )
}

function Facts({ usage, headers, ms }: ChatAnswer) {
  return (
    <>
      <Text size="sm" className="numbers" data-testid="usage">
        {usage
          ? `${usage.total_tokens} tokens: ${usage.prompt_tokens} of the prompt, ${usage.completion_tokens} of the answer`
          : 'The model reported no usage'}
        , in {duration(ms / 1_000)}
      </Text>
      <details>
        <Text component="summary" size="sm">
          Headers of the response
        </Text>
        <Table withRowBorders={false} verticalSpacing={2} fz="xs">
          <Table.Tbody>
            {headers.map(([name, value]) => (
              <Table.Tr key={name}>
                <Table.Td>{name}</Table.Td>
                <Table.Td>
                  <Code className="breaks">{value}</Code>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </details>
    </>
  )
}
