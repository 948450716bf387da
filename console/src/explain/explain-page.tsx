import { Button, Space, Text, TextInput } from '@mantine/core'
import type { Explanation } from '../api.ts'
import { useOwnKeys } from '../keys/own-keys.ts'
import { RefusalRow } from '../overview/last-refusals.tsx'
import { useOwnRefusals } from '../overview/own-refusals.ts'
import { Link } from '../parts/link.tsx'
import { Page } from '../parts/page.tsx'
import { Panel } from '../parts/panel.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { within } from '../parts/within.ts'
import { addressOf, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { Answer } from './answer.tsx'
import { QuestionForm } from './question-form.tsx'
import { Supposed } from './supposed.tsx'

const maxShown = 10

/** The question in the address, if any. */
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
  const refusals = useOwnRefusals()
  const keys = useOwnKeys().value?.data ?? []
  return (
    <Page
      // The next question has its answer below the heading, which gets the focus.
      key={query.toString()}
      title="Why?"
      about="How the gateway would decide a request, or has decided a refused one, step by step. Nothing is counted."
    >
      <Problem error={question && error} />
      {question && value === undefined && error === undefined && <Pending shape="page" />}
      {question && value && !error && <Answer explanation={value} keys={keys} />}
      <div className="columns">
        <Panel title="A refused request">
          <QuestionForm>
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
          </QuestionForm>
          {refusals.error && <Space h="sm" />}
          <Problem error={refusals.error} />
          <Text size="sm" c="dimmed" my="sm">
            {refusals.value &&
              (refusals.value.data.length === 0
                ? `None of your requests was refused ${within(refusals.value.since)}.`
                : 'Your last refusals:')}
            {me.administrator && (
              <>
                {' '}
                <Link to={addressOf('refusals')}>Everybody's refusals</Link>
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
        </Panel>
        <Panel title="A hypothetical request">
          <Supposed query={query} keys={keys} />
        </Panel>
      </div>
    </Page>
  )
}
