import { List, Stack, Text } from '@mantine/core'
import type { ApiKey, Explanation } from '../api.ts'
import { Advice } from '../parts/advice.tsx'
import { passedOver, reasonIn, wordsOf } from '../parts/codes.ts'
import { Icon } from '../parts/icon.tsx'
import { LimitBars } from '../parts/limits.tsx'
import { Link } from '../parts/link.tsx'
import { Panel } from '../parts/panel.tsx'
import { Time } from '../parts/time.tsx'
import { WrittenAt } from '../parts/written-at.tsx'
import { addressOf } from '../route.ts'
import { useSession } from '../session.tsx'

interface AnswerProps {
  readonly explanation: Explanation
  /** The caller's own keys, for their names. */
  readonly keys: readonly ApiKey[]
}

/** The decision at that time, the decision now, and its steps. */
export function Answer({ explanation, keys }: AnswerProps) {
  const { allowed, refusal, limits, model, steps, subscriptions } = explanation
  const { me } = useSession()
  const refusing = limits.find(({ refuses }) => refuses)?.name
  const isOfOther = explanation.user !== undefined && explanation.user !== me.username
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
          {refusal.reason && <p>{reasonIn(refusal.reason)}</p>}
          {allowed && (
            <p>
              <Advice text={wordsOf(refusal.code, isOfOther).next} />
            </p>
          )}
        </div>
      )}
      <Verdict {...{ explanation, isOfOther }} />
      <Server {...explanation} />
      <div className="columns">
        <Panel title="The steps">
          <Asked explanation={explanation} keys={keys} />
          <ol className="steps">
            {steps.map(({ step, passed, resource }) => (
              <li key={step} data-passed={passed}>
                <Icon name={passed ? 'check' : 'cross'} size={16} />
                <span>{questions[step]}</span>
                <span className={passed ? 'note' : undefined}>{passed ? 'passed' : 'refused'}</span>
                {resource && (
                  <span className="where">
                    <WrittenAt {...resource} />
                    {step === 'limits' && refusing && `, limit ${refusing}`}
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
                <LimitBars
                  limits={limits}
                  of={model ?? 'the model'}
                  currency={explanation.currency}
                />
              </Panel>
            )}
            {subscriptions.length > 0 && (
              <Panel title="Subscriptions">
                <List size="sm" spacing={6} listStyleType="none">
                  {subscriptions.map(({ pays, passedOver: because, ...resource }) => (
                    <List.Item key={`${resource.namespace} ${resource.name}`}>
                      <WrittenAt {...resource} /> {pays && 'pays'}
                      {because && passedOver[because]}
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

/** The user and the credential of the question. */
function Asked({ explanation: { user, keyId, askedAs }, keys }: AnswerProps) {
  if (user === undefined) return null
  const id = askedAs?.keyId ?? keyId
  const name = askedAs?.name ?? keys.find((key) => key.id === id)?.name ?? id
  return (
    <Text size="sm" c="dimmed" mb="xs" className="breaks">
      Asked for <b>{user}</b>
      {askedAs?.key === 'new' && ' with a new key'}
      {askedAs?.key === 'newest' && ' with the newest key'}
      {askedAs === undefined && (id === undefined ? ' with an identity token' : ' with the key')}
      {id !== undefined && (
        <>
          {' '}
          <Link to={addressOf(`keys/${id}`)}>{name}</Link>
        </>
      )}
      {askedAs && `, of the subscription ${askedAs.subscription}`}.
      {askedAs?.otherwise?.map((other) => (
        <span key={other.keyId}>
          {' '}
          With <Link to={addressOf(`keys/${other.keyId}`)}>{other.name}</Link> it would be{' '}
          {other.allowed ? 'allowed' : 'refused'}.
        </span>
      ))}
    </Text>
  )
}

/** Reports that the model's server did not answer the last request, which is no reason for a refusal. */
function Server({ backend, model }: Explanation) {
  if (backend === undefined) return null
  const { reason, detail } = backend
  return (
    <div className="banner" role="note">
      <Icon name="alert" />
      <p>
        The server of {model ?? 'the model'} is not reachable: its last request has failed (
        {reason.replaceAll('_', ' ')}
        {detail && `: ${detail}`}). The gateway still sends requests to it.
      </p>
    </div>
  )
}

interface VerdictProps {
  readonly explanation: Explanation
  readonly isOfOther: boolean
}

/** The decision now, and what to do next. */
function Verdict({ explanation, isOfOther }: VerdictProps) {
  const { allowed, status, code, message, reason, refusal, changesAt } = explanation
  const what = refusal ? 'Now it' : 'It'
  // Equal except for the reset time.
  const isSame = code === refusal?.code && reason === refusal?.reason
  return (
    <div className="verdict" data-kind={allowed ? 'yes' : 'no'}>
      <h2>
        {allowed
          ? `${what} would pass.`
          : `${what} would be refused${isSame ? ' too.' : `: ${message}`}`}
      </h2>
      {!allowed && (
        <p>
          {status} <code className="code">{code}</code> {reason && reasonIn(reason)}
        </p>
      )}
      {changesAt && (
        <p>
          {allowed ? 'This changes ' : 'It would pass '}
          <Time at={changesAt} isDistance />, if nothing else is used until then.
        </p>
      )}
      {!allowed && code && (
        <p>
          <b>What to do:</b> <Advice text={wordsOf(code, isOfOther).next} />
        </p>
      )}
    </div>
  )
}

const questions: Readonly<Record<Explanation['steps'][number]['step'], string>> = {
  credential: 'Is the credential known and valid?',
  address: 'May the key be used from this address?',
  path: 'Does the gateway know the path?',
  model: 'Is there such a model, and may the user use it?',
  access: 'Does a policy open the model to the user?',
  cap: "Is the model among the key's own models?",
  operation: 'Is the operation open?',
  subscription: 'Which subscription pays?',
  budget: 'Is the operation counted, as a limit on cost requires?',
  backend: 'Is the model ready?',
  limits: 'Is something left of every limit?',
}
