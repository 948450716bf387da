import { List, Stack, Text } from '@mantine/core'
import type { Explanation } from '../api.ts'
import { wordsOf } from '../parts/codes.ts'
import { Icon } from '../parts/icon.tsx'
import { LimitBars } from '../parts/limits.tsx'
import { Link } from '../parts/link.tsx'
import { Panel } from '../parts/panel.tsx'
import { Time } from '../parts/time.tsx'
import { WrittenAt } from '../parts/written-at.tsx'
import { addressOf } from '../route.ts'

/** What was decided then, what would be now, and the steps to it. */
export function Answer(explanation: Explanation) {
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
      <Server {...explanation} />
      <div className="columns">
        <Panel title="The steps">
          <Asked {...explanation} />
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
        </Panel>
        {(subscriptions.length > 0 || limits.length > 0) && (
          <Stack>
            {limits.length > 0 && (
              <Panel title="Limits">
                <LimitBars limits={limits} of={model ?? 'the model'} />
              </Panel>
            )}
            {subscriptions.length > 0 && (
              <Panel title="Subscriptions">
                <List size="sm" spacing={6} listStyleType="none">
                  {subscriptions.map(({ pays, passedOver, ...resource }) => (
                    <List.Item key={`${resource.namespace} ${resource.name}`}>
                      <WrittenAt {...resource} /> {pays && 'pays'}
                      {passedOver && passed[passedOver]}
                    </List.Item>
                  ))}
                </List>
              </Panel>
            )}
          </Stack>
        )}
      </div>
    </Stack>
  )
}

/** With which credential it was asked, and of whom. */
function Asked({ user, keyId, askedAs }: Explanation) {
  if (user === undefined) return null
  const id = askedAs?.keyId ?? keyId
  return (
    <Text size="sm" c="dimmed" mb="xs" className="breaks">
      Asked for <b>{user}</b>
      {askedAs?.key === 'new' && ' with a new key'}
      {askedAs?.key === 'newest' && ' with the newest key'}
      {askedAs === undefined && (id === undefined ? ' with an identity token' : ' with the key')}
      {id !== undefined && (
        <>
          {' '}
          <Link to={addressOf(`keys/${id}`)}>{askedAs?.name ?? id}</Link>
        </>
      )}
      {askedAs && `, of the subscription ${askedAs.subscription}`}.
    </Text>
  )
}

/** That the server of the model has not answered the last request; nothing is refused for it. */
function Server({ backend, model }: Explanation) {
  if (backend === undefined) return null
  const { reason, detail } = backend
  return (
    <div className="banner" role="note">
      <Icon name="alert" />
      <p>
        The server of {model ?? 'the model'} is not reachable: its last request has failed (
        {reason.replaceAll('_', ' ')}
        {detail && `: ${detail}`}). The gateway still sends requests there.
      </p>
    </div>
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
