import { Badge, Group, Stack, Table, Text } from '@mantine/core'
import type { Model, Subscription } from '../api.ts'
import { LimitList } from '../parts/limits.tsx'
import { Link } from '../parts/link.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { Problem } from '../parts/problem.tsx'
import { Scrolls } from '../parts/scrolls.tsx'
import { addressOf } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { limitsOf, type Offer, readOffers } from './offers.ts'

export function ModelsPage() {
  const { call } = useSession()
  const { value, error } = useLoaded('', () => readOffers(call))
  return (
    <Page
      title="Models"
      about="What you may call, and which subscription pays for it. Open a model to see what is left of its limits and to try it."
    >
      <Problem error={error} />
      {value?.length === 0 && (
        <Nothing title="No model is open to you">
          A model must be in a subscription of yours and open to you or one of your groups. Ask{' '}
          <Link to={addressOf('explain')}>why</Link>, or an administrator.
        </Nothing>
      )}
      {value && value.length > 0 && (
        <Scrolls label="Models">
          <Table verticalSpacing="sm" className="numbers" miw={640}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Model</Table.Th>
                <Table.Th>Subscriptions and their limits</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {value.map((offer) => (
                <Row key={`${offer.model.owned_by} ${offer.model.id}`} {...offer} />
              ))}
            </Table.Tbody>
          </Table>
        </Scrolls>
      )}
    </Page>
  )
}

function Row({ model, subscriptions }: Offer) {
  return (
    <Table.Tr>
      <Table.Td valign="top">
        <Group gap="xs">
          <Text fw={500} className="breaks">
            <Link to={addressOf(`models/${model.owned_by}`, { id: model.id })}>{model.id}</Link>
          </Text>
          {!model.ready && (
            <Badge variant="outline" color="gray" tt="none">
              not ready
            </Badge>
          )}
        </Group>
        <ModelAbout model={model} />
      </Table.Td>
      <Table.Td valign="top">
        <Stack gap={2}>
          {subscriptions.map((subscription) => (
            <Subscribed key={subscription.subscription_id_header} {...{ model, subscription }} />
          ))}
        </Stack>
      </Table.Td>
    </Table.Tr>
  )
}

function Subscribed({ model, subscription }: { model: Model; subscription: Subscription }) {
  const limits = limitsOf(subscription, model)
  return (
    <Text size="sm" className="breaks">
      {subscription.display_name ?? subscription.subscription_id_header}
      {limits.length > 0 && ': '}
      <LimitList limits={limits} />
    </Text>
  )
}

/** What its server or its operator says of a model. */
export function ModelAbout({ model }: { readonly model: Model }) {
  const { displayName, description, contextWindow } = model.modelDetails ?? {}
  const about = [displayName, description, contextWindow && `${contextWindow} tokens of context`]
  return (
    <Text size="xs" c="dimmed" className="breaks">
      {[model.owned_by, ...about.filter((each) => each)].join(' · ')}
    </Text>
  )
}
