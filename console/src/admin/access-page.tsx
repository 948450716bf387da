import { Badge, Code, Group, Stack, Table, Text } from '@mantine/core'
import type { AccessList } from '../api.ts'
import { Filter } from '../parts/filter.tsx'
import { LimitList } from '../parts/limits.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { Pages, pageIn } from '../parts/pages.tsx'
import { Problem } from '../parts/problem.tsx'
import { Scrolls } from '../parts/scrolls.tsx'
import { WrittenAt } from '../parts/written-at.tsx'
import { usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'

const pageSize = 50

/** Who can use a model, and through what: a row for each model and each user or group. */
export function AccessPage() {
  const { call } = useSession()
  const { query } = usePlace()
  const page = pageIn(query)
  const asked = new URLSearchParams({
    model: query.get('model') ?? '',
    subject: query.get('subject') ?? '',
    limit: String(pageSize),
    offset: String((page - 1) * pageSize),
  }).toString()
  const { value, error } = useLoaded(asked, () =>
    call<AccessList>('GET', `/v1/admin/access?${asked}`),
  )
  return (
    <Page
      title="Access"
      about="Who can use which model, and through what. A policy opens a model, a subscription pays for it; a person has what the own name and all own groups have together."
    >
      <Group align="flex-start">
        <Filter name="model" label="Model" description="As in a body, or namespace/name." />
        <Filter name="subject" label="User or group" description="The whole name." />
      </Group>
      <Problem error={error} />
      {value?.data.length === 0 && (
        <Nothing title="Nobody, as far as policies and subscriptions say">
          A model needs an AccessPolicy and a Subscription that name it. Names are compared exactly.
        </Nothing>
      )}
      {value && value.data.length > 0 && (
        <Scrolls label="Access">
          <Table verticalSpacing="xs" miw={820}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Model</Table.Th>
                <Table.Th>Who</Table.Th>
                <Table.Th>Alone enough?</Table.Th>
                <Table.Th>Opened by</Table.Th>
                <Table.Th>Paid by</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {value.data.map((each) => (
                <Row key={`${each.model} ${each.subject_kind} ${each.subject}`} {...each} />
              ))}
            </Table.Tbody>
          </Table>
        </Scrolls>
      )}
      {value && <Pages page={page} hasMore={value.has_more} />}
    </Page>
  )
}

function Row(row: AccessList['data'][number]) {
  const { model, subject_kind, subject, usable, policies, subscriptions } = row
  return (
    <Table.Tr>
      <Table.Td valign="top" className="breaks" miw={140}>
        {model}
      </Table.Td>
      <Table.Td valign="top" className="breaks">
        {subject_kind} <Code>{subject}</Code>
      </Table.Td>
      <Table.Td valign="top">
        <Badge variant="dot" color={usable ? 'green' : 'gray'} tt="none">
          {usable ? 'yes' : 'no'}
        </Badge>
        {!usable && (
          <Text size="xs" c="dimmed">
            {lackOf(row)}
          </Text>
        )}
      </Table.Td>
      <Table.Td valign="top">
        <Stack gap={4}>
          {policies.map((policy) => (
            <div key={policy.name}>
              <WrittenAt {...policy} kind={undefined} />
            </div>
          ))}
          <More count={row.more_policies} />
        </Stack>
      </Table.Td>
      <Table.Td valign="top">
        <Stack gap={4}>
          {subscriptions.map(({ pays, limits, ...subscription }) => (
            <div key={subscription.name}>
              <WrittenAt {...subscription} kind={undefined} />
              <Text size="xs" c="dimmed">
                <LimitList limits={limits} />
                {!pays && ' (not ready for the model)'}
              </Text>
            </div>
          ))}
          <More count={row.more_subscriptions} />
        </Stack>
      </Table.Td>
    </Table.Tr>
  )
}

function lackOf({ policies, subscriptions }: AccessList['data'][number]): string {
  if (policies.length === 0) return 'no policy opens the model'
  if (subscriptions.length === 0) return 'no subscription pays'
  if (!subscriptions.some(({ pays }) => pays)) return 'no subscription is ready'
  return 'the model is not ready'
}

function More({ count }: { readonly count: number | undefined }) {
  if (count === undefined) return null
  return (
    <Text size="xs" c="dimmed">
      and {count} more
    </Text>
  )
}
