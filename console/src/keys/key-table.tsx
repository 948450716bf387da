import { Badge, Button, Code, Group, Table, Text, UnstyledButton } from '@mantine/core'
import type { ApiKey } from '../api.ts'
import { Link } from '../parts/link.tsx'
import { Pages } from '../parts/pages.tsx'
import { Scrolls } from '../parts/scrolls.tsx'
import { Time } from '../parts/time.tsx'
import { addressOf, refine } from '../route.ts'
import { CapList } from './caps.tsx'
import { expiresSoon } from './expiring.tsx'
import type { FoundKeys, SortField, Wanted } from './find-keys.ts'
import { type KeyAct, keyActs } from './key-dialogs.tsx'
import { LabelList } from './labels.tsx'

interface KeyTableProps {
  readonly wanted: Wanted
  readonly found: FoundKeys
  readonly showsOwner: boolean
  readonly onAct: (act: KeyAct, key: ApiKey) => void
  readonly acts: readonly KeyAct[]
}

export function KeyTable({ wanted, found, showsOwner, onAct, acts }: KeyTableProps) {
  return (
    <>
      <Scrolls label="API keys">
        <Table verticalSpacing="xs" highlightOnHover className="numbers" miw={720}>
          <Table.Thead>
            <Table.Tr>
              <SortHeader {...{ wanted }} field="name" label="Name" />
              <Table.Th>Key</Table.Th>
              {showsOwner && <Table.Th>Owner</Table.Th>}
              <Table.Th>Subscription</Table.Th>
              <Table.Th>Status</Table.Th>
              <SortHeader {...{ wanted }} field="created_at" label="Created" />
              <SortHeader {...{ wanted }} field="expires_at" label="Expires" />
              <SortHeader {...{ wanted }} field="last_used_at" label="Last used" />
              <Table.Th>
                <span className="unseen">Actions</span>
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {found.keys.map((key) => (
              <Row key={key.id} {...{ showsOwner, onAct, acts }} record={key} />
            ))}
          </Table.Tbody>
        </Table>
      </Scrolls>
      <Pages page={wanted.page} hasMore={found.hasMore} />
    </>
  )
}

interface RowProps {
  readonly record: ApiKey
  readonly showsOwner: boolean
  readonly onAct: (act: KeyAct, key: ApiKey) => void
  readonly acts: readonly KeyAct[]
}

function Row({ record, showsOwner, onAct, acts }: RowProps) {
  const { name, description, keyPrefix, username, subscription, ephemeral, previous } = record
  return (
    <Table.Tr>
      <Table.Td miw={160} maw={280}>
        <Text size="sm" fw={500} className="breaks">
          <Link to={addressOf(`keys/${record.id}`)}>{name}</Link>
        </Text>
        {description && (
          <Text size="xs" c="dimmed" className="breaks">
            {description}
          </Text>
        )}
        <LabelList labels={record.labels} />
      </Table.Td>
      <Table.Td>
        {keyPrefix && <Code className="whole">{keyPrefix}…</Code>}
        {previous && (
          <Text size="xs" c="dimmed">
            the old secret works until <Time at={previous.endsAt} />
          </Text>
        )}
      </Table.Td>
      {showsOwner && <Table.Td className="breaks">{username}</Table.Td>}
      <Table.Td maw={280}>
        <Text size="sm" className="breaks">
          {subscription}
        </Text>
        <CapList {...record} />
      </Table.Td>
      <Table.Td>
        <Status status={record.status} />
        {ephemeral && (
          <Text size="xs" c="dimmed">
            ephemeral
          </Text>
        )}
      </Table.Td>
      <Table.Td>
        <Time at={record.createdAt} isDistance />
      </Table.Td>
      <Table.Td>
        {record.expiresAt ? <Time at={record.expiresAt} isDistance /> : 'never'}
        {expiresSoon(record) && (
          <Badge variant="dot" color="yellow" tt="none">
            soon
          </Badge>
        )}
      </Table.Td>
      <Table.Td>
        {record.lastUsedAt ? <Time at={record.lastUsedAt} isDistance /> : 'not yet'}
      </Table.Td>
      <Table.Td ta="right">
        {record.status === 'active' && (
          <Group gap={4} justify="flex-end" wrap="nowrap">
            {acts.map((act) => (
              <Button
                key={act}
                size="compact-sm"
                variant="default"
                aria-label={`${keyActs[act]} ${name}`}
                onClick={() => onAct(act, record)}
              >
                {keyActs[act]}
              </Button>
            ))}
          </Group>
        )}
      </Table.Td>
    </Table.Tr>
  )
}

const colors = { active: 'green', expired: 'gray', revoked: 'red' } as const

export function Status({ status }: { readonly status: ApiKey['status'] }) {
  return (
    <Badge variant="dot" color={colors[status]} tt="none">
      {status}
    </Badge>
  )
}

interface SortHeaderProps {
  readonly wanted: Wanted
  readonly field: SortField
  readonly label: string
}

function SortHeader({ wanted, field, label }: SortHeaderProps) {
  const isSorted = wanted.sortBy === field
  const isUp = isSorted && wanted.order === 'asc'
  // Names are read from a to z, dates from the latest.
  const first = field === 'name' ? 'asc' : 'desc'
  const order = isSorted ? (isUp ? 'desc' : 'asc') : first
  return (
    <Table.Th aria-sort={isSorted ? (isUp ? 'ascending' : 'descending') : undefined}>
      <UnstyledButton
        className="sort"
        fz="sm"
        onClick={() => refine({ sort: field, order, page: '' })}
      >
        {label}
        <span aria-hidden="true">{isSorted ? (isUp ? '▲' : '▼') : ''}</span>
      </UnstyledButton>
    </Table.Th>
  )
}
