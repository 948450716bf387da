import { Badge, Table, Text } from '@mantine/core'
import type { Refusal } from '../api.ts'
import { Filter } from '../parts/filter.tsx'
import { Link } from '../parts/link.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { Problem } from '../parts/problem.tsx'
import { Scrolls } from '../parts/scrolls.tsx'
import { Time } from '../parts/time.tsx'
import { addressOf, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'

const everyMs = 10_000
const maxShown = 200

/** The refusals that the process remembers which answers. */
export function RefusalsPage() {
  const { call } = useSession()
  const { query } = usePlace()
  const { value, error } = useLoaded(
    '',
    () =>
      call<{ readonly data: readonly Refusal[] }>('GET', `/v1/admin/refusals?limit=${maxShown}`),
    everyMs,
  )
  const sought = (query.get('find') ?? '').toLowerCase()
  const found = value?.data.filter(({ user, model, code, path, message }) =>
    [user, model, code, path, message].some((each) => each?.toLowerCase().includes(sought)),
  )
  return (
    <Page
      title="Refusals"
      about={`Model requests refused within the last hour, the newest ${maxShown}, read again every ${everyMs / 1_000} seconds. Each process remembers its own.`}
    >
      <Filter name="find" label="Find" placeholder="User, model, code or text" />
      <Problem error={error} />
      {found?.length === 0 && (
        <Nothing title={sought ? 'No refusal fits' : 'Nothing was refused within the hour'} />
      )}
      {found && found.length > 0 && (
        <Scrolls label="Refusals">
          <Table verticalSpacing="xs" className="numbers" miw={820}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>When</Table.Th>
                <Table.Th>User</Table.Th>
                <Table.Th>Model</Table.Th>
                <Table.Th>Refused with</Table.Th>
                <Table.Th>
                  <span className="unseen">Explanation</span>
                </Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {found.map((each) => (
                <Row key={`${each.requestId} ${each.at}`} {...each} />
              ))}
            </Table.Tbody>
          </Table>
        </Scrolls>
      )}
    </Page>
  )
}

function Row({ requestId, at, user, model, method, path, status, code, ...rest }: Refusal) {
  return (
    <Table.Tr>
      <Table.Td valign="top">
        <Time at={at} isDistance />
      </Table.Td>
      <Table.Td valign="top" className="breaks">
        {user ?? 'nobody'}
      </Table.Td>
      <Table.Td valign="top" className="breaks">
        <div>{model}</div>
        <Text size="xs" c="dimmed">
          {method} {path}
        </Text>
      </Table.Td>
      <Table.Td valign="top" maw={420}>
        <Badge variant="outline" color="gray" tt="none">
          {status} {code}
        </Badge>
        <Text size="sm" className="breaks">
          {rest.message}
        </Text>
        {rest.reason && (
          <Text size="xs" c="dimmed" className="breaks">
            {rest.reason}
          </Text>
        )}
      </Table.Td>
      <Table.Td valign="top" ta="right">
        <Link to={addressOf('explain', { request: requestId })}>Why?</Link>
      </Table.Td>
    </Table.Tr>
  )
}
