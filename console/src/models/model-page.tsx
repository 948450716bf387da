import { Grid, NativeSelect, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { Explanation, LimitList } from '../api.ts'
import { LimitBars } from '../parts/limits.tsx'
import { Link } from '../parts/link.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { Panel } from '../parts/panel.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { addressOf, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { aboutModel, nameOf } from './models-page.tsx'
import { type Offer, readOffers } from './offers.ts'
import { TryIt } from './try-it.tsx'

/** The model in the address: `models/<namespace>/<name>?id=…`. */
export function ModelPage() {
  const { call } = useSession()
  const { path, query } = usePlace()
  const offers = useLoaded('', () => readOffers(call))
  const owner = path.replace(/^models\//, '')
  const id = query.get('id')
  const offer = offers.value?.find(
    ({ model }) => model.owned_by === owner && (id === null || model.id === id),
  )
  return (
    <Page
      title={id === null ? owner : nameOf({ id, owned_by: owner })}
      about={offer ? aboutModel(offer.model) : <Link to={addressOf('models')}>All models</Link>}
    >
      <Problem error={offers.error} />
      {offers.value === undefined && offers.error === undefined && <Pending shape="cards" />}
      {offers.value && !offer && (
        <Nothing title="There is no such model, or you may not use it">
          <Link to={addressOf('explain', { model: owner })}>Ask why</Link>
        </Nothing>
      )}
      {offer && <Open {...offer} />}
    </Page>
  )
}

/** Interval between reads of the limits, in milliseconds. */
const everyMs = 5_000

function Open({ model, subscriptions }: Offer) {
  const { call } = useSession()
  const [chosen, setChosen] = useState<string>()
  const name = chosen ?? subscriptions[0]?.subscription_id_header ?? ''
  // Without a listed subscription the service chooses; it refuses an empty name.
  const question = { model: model.owned_by, ...(name !== '' && { subscription: name }) }
  const state = useLoaded(
    JSON.stringify(question),
    async () => {
      const [explanation, limits] = await Promise.all([
        call<Explanation>('POST', '/v1/explain', question),
        // Not those of the explanation, which has none if a restriction of the newest key refuses.
        call<LimitList>('GET', `/v1/limits?${new URLSearchParams(question)}`),
      ])
      const { data, currency } = limits
      return { explanation, currency, limits: data.filter(({ enforced }) => enforced) }
    },
    everyMs,
  )
  const { value } = state
  return (
    <Stack>
      <NativeSelect
        label="Subscription"
        maw={360}
        value={name}
        onChange={({ currentTarget }) => setChosen(currentTarget.value)}
        data={subscriptions.map(({ subscription_id_header: value, display_name }) => ({
          value,
          label: display_name ? `${display_name} (${value})` : value,
        }))}
      />
      <Grid>
        <Grid.Col span={{ base: 12, md: 5 }}>
          <Panel title="What is left">
            <Problem error={state.error} />
            {value && !value.explanation.allowed && (
              <Text size="sm" mb="sm" className="breaks">
                <Refused {...value.explanation} />{' '}
                <Link to={addressOf('explain', question)}>Why?</Link>
              </Text>
            )}
            {value && <LimitBars limits={value.limits} of={model.id} currency={value.currency} />}
            <Text size="xs" c="dimmed" mt="sm">
              Updated every {everyMs / 1_000} seconds. Each user has their own limits, except shared
              ones.
            </Text>
          </Panel>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 7 }}>
          <TryIt key={name} {...{ model }} subscription={name} onAnswered={state.reload} />
        </Grid.Col>
      </Grid>
    </Stack>
  )
}

/** The refusal, and the key that it is about: a key may have restrictions that a new one has not. */
function Refused({ message, askedAs }: Explanation) {
  if (askedAs?.keyId === undefined) return message
  const others = askedAs.otherwise?.filter(({ allowed }) => allowed) ?? []
  return (
    <>
      Your newest key <Link to={addressOf(`keys/${askedAs.keyId}`)}>{askedAs.name ?? ''}</Link>{' '}
      would be refused: {message}
      {others.map(({ keyId, name }) => (
        <span key={keyId}>
          {' '}
          With <Link to={addressOf(`keys/${keyId}`)}>{name}</Link> it would be allowed.
        </span>
      ))}
    </>
  )
}
