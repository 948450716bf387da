import {
  Alert,
  Badge,
  Button,
  Card,
  Code,
  Group,
  List,
  Stack,
  Text,
  TextInput,
} from '@mantine/core'
import type { FormEvent, ReactNode } from 'react'
import type { Explanation } from './api.ts'
import { LimitBars } from './parts/limits.tsx'
import { Page } from './parts/page.tsx'
import { Problem } from './parts/problem.tsx'
import { Time } from './parts/time.tsx'
import { WrittenAt } from './parts/written-at.tsx'
import { addressOf, go, usePlace } from './route.ts'
import { useSession } from './session.tsx'
import { useLoaded } from './use-loaded.ts'

/** The question that the address holds; undefined: none. */
function readQuestion(query: URLSearchParams): Record<string, unknown> | undefined {
  const request = query.get('request')
  if (request) return { requestId: request }
  const model = query.get('model')
  if (!model) return undefined
  const text = (name: string) => query.get(name) || undefined
  const user = text('user')
  return {
    model,
    subscription: text('subscription'),
    keyId: text('key'),
    ...(user && { user, groups: (text('groups') ?? '').split(',').filter((each) => each) }),
  }
}

export function ExplainPage() {
  const { call, me } = useSession()
  const { query } = usePlace()
  const question = readQuestion(query)
  const { value, error } = useLoaded<Explanation | undefined>(
    JSON.stringify(question ?? null),
    async () => question && call<Explanation>('POST', '/v1/explain', question),
  )
  return (
    <Page
      title="Why?"
      about="What the gateway decides about a request, or has decided about a refused one, step by step. Asking counts nothing."
    >
      <Card withBorder key={query.toString()}>
        <Stack>
          <Form>
            <TextInput
              name="request"
              label="Request id"
              description="The x-request-id of a request refused within the last hour."
              defaultValue={query.get('request') ?? ''}
              w={{ base: '100%', xs: 420 }}
              required
            />
            <Button type="submit" variant="default">
              Explain the refusal
            </Button>
          </Form>
          <Form>
            <TextInput
              name="model"
              label="Model"
              description="As in a body, or namespace/name."
              defaultValue={query.get('model') ?? ''}
              w={{ base: '100%', xs: 220 }}
              required
            />
            <TextInput
              name="subscription"
              label="Subscription"
              description="Empty: any."
              defaultValue={query.get('subscription') ?? ''}
              w={{ base: '100%', xs: 180 }}
            />
            {me.administrator && (
              <>
                <TextInput
                  name="user"
                  label="User"
                  description="Empty: you."
                  defaultValue={query.get('user') ?? ''}
                  w={{ base: '100%', xs: 160 }}
                />
                <TextInput
                  name="groups"
                  label="Groups of the user"
                  description="With commas between them."
                  defaultValue={query.get('groups') ?? ''}
                  w={{ base: '100%', xs: 200 }}
                />
              </>
            )}
            <Button type="submit" variant="default">
              Would it pass?
            </Button>
          </Form>
        </Stack>
      </Card>
      <Problem error={question && error} />
      {question && value && !error && <Answer {...value} />}
    </Page>
  )
}

function Form({ children }: { readonly children: ReactNode }) {
  function ask(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const written = [...new FormData(event.currentTarget)].map(
      ([name, value]) => [name, String(value).trim()] as const,
    )
    go(addressOf('explain', Object.fromEntries(written.filter(([, value]) => value !== ''))))
  }
  return (
    <form onSubmit={ask}>
      <Group align="flex-end">{children}</Group>
    </form>
  )
}

function Answer(explanation: Explanation) {
  const { allowed, status, code, message, reason, refusal, changesAt, limits, model } = explanation
  return (
    <Stack role="status">
      {refusal && (
        <Alert color="red" variant="outline" title={`Refused then: ${refusal.message}`}>
          <Text size="sm">
            {refusal.status} <Code>{refusal.code}</Code>, <Time at={refusal.at} isDistance />
            {refusal.path && (
              <>
                , <Code className="breaks">{`${refusal.method} ${refusal.path}`}</Code>
              </>
            )}
          </Text>
          {refusal.reason && <Text size="sm">{refusal.reason}</Text>}
        </Alert>
      )}
      <Alert
        color={allowed ? 'green' : 'red'}
        variant="outline"
        title={
          allowed
            ? `${refusal ? 'Now it' : 'It'} would pass.`
            : `${refusal ? 'Now it' : 'It'} would be refused: ${message}`
        }
      >
        <Text size="sm">
          {!allowed && (
            <>
              {status} <Code>{code}</Code>{' '}
            </>
          )}
          {reason && `${reason} `}
          {changesAt && (
            <>
              {allowed ? 'Until the key expires ' : 'It would pass '}
              <Time at={changesAt} isDistance />
              {!allowed && ', if nothing else is used until then'}.
            </>
          )}
        </Text>
      </Alert>
      <Card withBorder>
        <Text fw={600} component="h2" size="md" mb="xs">
          The steps
        </Text>
        <List type="ordered" spacing={6} size="sm" center>
          {explanation.steps.map(({ step, passed, resource }) => (
            <List.Item key={step}>
              <Badge variant="dot" color={passed ? 'green' : 'red'} tt="none">
                {passed ? 'passed' : 'refused'}
              </Badge>{' '}
              {questions[step]} {resource && <WrittenAt {...resource} />}
            </List.Item>
          ))}
        </List>
      </Card>
      {explanation.subscriptions.length > 0 && (
        <Card withBorder>
          <Text fw={600} component="h2" size="md" mb="xs">
            Subscriptions
          </Text>
          <List size="sm" spacing={6}>
            {explanation.subscriptions.map(({ pays, passedOver, ...resource }) => (
              <List.Item key={`${resource.namespace} ${resource.name}`}>
                <WrittenAt {...resource} /> {pays && 'pays'}
                {passedOver && passed[passedOver]}
              </List.Item>
            ))}
          </List>
        </Card>
      )}
      {limits.length > 0 && (
        <Card withBorder>
          <Text fw={600} component="h2" size="md" mb="xs">
            Limits
          </Text>
          <LimitBars limits={limits} of={model ?? 'the model'} />
        </Card>
      )}
    </Stack>
  )
}

const questions: Readonly<Record<Explanation['steps'][number]['step'], string>> = {
  credential: 'Is the credential known and valid?',
  address: 'May the key be used from this address?',
  path: 'Does the gateway know the path?',
  model: 'Is there such a model, and may the person use it?',
  access: 'Does a policy open the model to the person?',
  cap: "Is the model among the key's own models?",
  operation: 'Is the operation open?',
  subscription: 'Which subscription pays?',
  backend: 'Is the model ready?',
  limits: 'Is something left of every limit?',
}

const passed = {
  not_named: 'was not considered: the key or the request names another one',
  not_found: 'does not exist',
  access_denied: 'is not open to the person',
  model_not_in_subscription: 'does not include the model',
  model_unhealthy: 'is not ready for the model',
  multiple_subscriptions: 'is one of several; the request must name one',
} as const
