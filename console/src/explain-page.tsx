import {
  Button,
  Card,
  Group,
  List,
  NativeSelect,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from '@mantine/core'
import { type FormEvent, type ReactNode, useState } from 'react'
import type { ApiKey, Explanation, OwnRefusalList } from './api.ts'
import { readOffers } from './models/offers.ts'
import { RefusalRow } from './overview/last-refusals.tsx'
import { wordsOf } from './parts/codes.ts'
import { Icon } from './parts/icon.tsx'
import { LimitBars } from './parts/limits.tsx'
import { Link } from './parts/link.tsx'
import { Page } from './parts/page.tsx'
import { Pending } from './parts/pending.tsx'
import { Problem } from './parts/problem.tsx'
import { Time } from './parts/time.tsx'
import { WrittenAt } from './parts/written-at.tsx'
import { addressOf, go, usePlace } from './route.ts'
import { useSession } from './session.tsx'
import { useLoaded } from './use-loaded.ts'

const everyMs = 30_000
const maxShown = 10

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
  const refusals = useLoaded(
    '',
    () => call<OwnRefusalList>('GET', '/v1/refusals?limit=20'),
    everyMs,
  )
  return (
    <Page
      title="Why?"
      about="What the gateway decides about a request, or has decided about a refused one, step by step. Asking counts nothing."
    >
      <Problem error={question && error} />
      {question && value === undefined && error === undefined && <Pending />}
      {question && value && !error && <Answer {...value} />}
      <div className="columns" key={query.toString()}>
        <Card withBorder component="section" aria-label="A refused request">
          <Text className="title" component="h2" mb="sm">
            A refused request
          </Text>
          <Form>
            <TextInput
              name="request"
              aria-label="Request id"
              placeholder="x-request-id"
              defaultValue={query.get('request') ?? ''}
              flex={1}
              required
            />
            <Button type="submit" variant="default">
              Explain
            </Button>
          </Form>
          <Text size="sm" c="dimmed" my="sm">
            {refusals.value?.data.length === 0
              ? 'None of your requests was refused within the last hour.'
              : 'Your last refusals:'}
            {me.administrator && (
              <>
                {' '}
                <Link to={addressOf('refusals')}>Those of everybody</Link>
              </>
            )}
          </Text>
          <ul className="rows">
            {refusals.value?.data.slice(0, maxShown).map((refusal) => (
              <RefusalRow
                key={`${refusal.requestId} ${refusal.at}`}
                refusal={refusal}
                showsUser={false}
              />
            ))}
          </ul>
        </Card>
        <Card withBorder component="section" aria-label="A request to come">
          <Text className="title" component="h2" mb="sm">
            A request to come
          </Text>
          <Supposed query={query} />
        </Card>
      </div>
    </Page>
  )
}

/** A question about a request that has not been made, chosen from what the caller has. */
function Supposed({ query }: { readonly query: URLSearchParams }) {
  const { call, me } = useSession()
  const [key, setKey] = useState(query.get('key') ?? '')
  const offers = useLoaded('', () => readOffers(call))
  const keys = useLoaded('', () =>
    call<{ readonly data: readonly ApiKey[] }>('POST', '/v1/api-keys/search', {
      filters: { username: me.username, status: ['active'] },
      sort: { by: 'last_used_at', order: 'desc' },
      pagination: { limit: 100 },
    }),
  )
  const subscriptions = new Map(
    offers.value?.flatMap((offer) =>
      offer.subscriptions.map((each) => [each.subscription_id_header, each.display_name] as const),
    ),
  )
  const given = query.get('subscription') ?? ''
  if (given !== '' && !subscriptions.has(given)) subscriptions.set(given, undefined)
  const known = keys.value?.data.some(({ id }) => id === key) ?? false
  return (
    <Form isColumn>
      <TextInput
        name="model"
        label="Model"
        placeholder="As in a body, or namespace/name"
        defaultValue={query.get('model') ?? ''}
        list="models"
        autoComplete="off"
        required
      />
      <datalist id="models">
        {offers.value?.map(({ model }) => (
          <option key={`${model.owned_by} ${model.id}`} value={model.id}>
            {model.owned_by}
          </option>
        ))}
      </datalist>
      <NativeSelect
        name="key"
        label="Key"
        value={key}
        onChange={({ currentTarget }) => setKey(currentTarget.value)}
        data={[
          { value: '', label: 'Any of mine' },
          ...(key !== '' && !known ? [{ value: key, label: key }] : []),
          ...(keys.value?.data.map(({ id, name, subscription }) => ({
            value: id,
            label: `${name} (${subscription})`,
          })) ?? []),
        ]}
      />
      {key === '' && (
        <NativeSelect
          key={subscriptions.size}
          name="subscription"
          label="Subscription"
          defaultValue={given}
          data={[
            { value: '', label: 'Any of mine' },
            ...[...subscriptions].map(([value, display]) => ({
              value,
              label: display ? `${display} (${value})` : value,
            })),
          ]}
        />
      )}
      {me.administrator && key === '' && (
        <SimpleGrid cols={2}>
          <TextInput
            name="user"
            label="User"
            placeholder="You"
            defaultValue={query.get('user') ?? ''}
          />
          <TextInput
            name="groups"
            label="Groups of the user"
            placeholder="With commas"
            defaultValue={query.get('groups') ?? ''}
          />
        </SimpleGrid>
      )}
      <Button type="submit">Would it pass?</Button>
    </Form>
  )
}

interface FormProps {
  readonly isColumn?: boolean
  readonly children: ReactNode
}

function Form({ isColumn = false, children }: FormProps) {
  function ask(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const written = [...new FormData(event.currentTarget)].map(
      ([name, value]) => [name, String(value).trim()] as const,
    )
    go(addressOf('explain', Object.fromEntries(written.filter(([, value]) => value !== ''))))
  }
  return (
    <form onSubmit={ask}>
      {isColumn ? (
        <Stack gap="sm" align="stretch">
          {children}
        </Stack>
      ) : (
        <Group gap="xs">{children}</Group>
      )}
    </form>
  )
}

function Answer(explanation: Explanation) {
  const { allowed, refusal, limits, model, steps, subscriptions } = explanation
  return (
    <Stack role="status">
      {refusal && (
        <div className="verdict" data-kind="past">
          <h2>Refused then: {refusal.message}</h2>
          <p>
            {refusal.status} <code className="code">{refusal.code}</code>,{' '}
            <Time at={refusal.at} isDistance />
            {refusal.path && (
              <>
                , <code className="code">{`${refusal.method} ${refusal.path}`}</code>
              </>
            )}
          </p>
          {refusal.reason && <p>{refusal.reason}</p>}
          {allowed && <p>{wordsOf(refusal.code).next}</p>}
        </div>
      )}
      <Verdict {...explanation} />
      <div className="columns">
        <Card withBorder>
          <Text className="title" component="h2" mb="xs">
            The steps
          </Text>
          <ol className="steps">
            {steps.map(({ step, passed, resource }) => (
              <li key={step} data-passed={passed}>
                <Icon name={passed ? 'check' : 'cross'} size={16} />
                <span>{questions[step]}</span>
                <span className={passed ? 'note' : undefined}>{passed ? 'passed' : 'refused'}</span>
                {resource && (
                  <span className="where">
                    <WrittenAt {...resource} />
                  </span>
                )}
              </li>
            ))}
          </ol>
        </Card>
        {(subscriptions.length > 0 || limits.length > 0) && (
          <Stack>
            {limits.length > 0 && (
              <Card withBorder>
                <Text className="title" component="h2" mb="xs">
                  Limits
                </Text>
                <LimitBars limits={limits} of={model ?? 'the model'} />
              </Card>
            )}
            {subscriptions.length > 0 && (
              <Card withBorder>
                <Text className="title" component="h2" mb="xs">
                  Subscriptions
                </Text>
                <List size="sm" spacing={6} listStyleType="none">
                  {subscriptions.map(({ pays, passedOver, ...resource }) => (
                    <List.Item key={`${resource.namespace} ${resource.name}`}>
                      <WrittenAt {...resource} /> {pays && 'pays'}
                      {passedOver && passed[passedOver]}
                    </List.Item>
                  ))}
                </List>
              </Card>
            )}
          </Stack>
        )}
      </div>
    </Stack>
  )
}

/** What is true now, and what to do next. */
function Verdict({ allowed, status, code, message, reason, refusal, changesAt }: Explanation) {
  const what = refusal ? 'Now it' : 'It'
  const isSame = message === refusal?.message
  return (
    <div className="verdict" data-kind={allowed ? 'yes' : 'no'}>
      <h2>
        {allowed
          ? `${what} would pass.`
          : `${what} would be refused${isSame ? ' too.' : `: ${message}`}`}
      </h2>
      {!allowed && (
        <p>
          {status} <code className="code">{code}</code> {reason}
        </p>
      )}
      {changesAt && (
        <p>
          {allowed ? 'Until the key expires ' : 'It would pass '}
          <Time at={changesAt} isDistance />
          {!allowed && ', if nothing else is used until then'}.
        </p>
      )}
      {!allowed && code && (
        <p>
          <b>What to do:</b> {wordsOf(code).next}
        </p>
      )}
    </div>
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
