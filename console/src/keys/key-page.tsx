import { Button, SimpleGrid, Table, Text } from '@mantine/core'
import { useState } from 'react'
import type { ApiKey, KeyUsage } from '../api.ts'
import { Fact, Facts } from '../parts/facts.tsx'
import { Link } from '../parts/link.tsx'
import { count } from '../parts/numbers.ts'
import { Page } from '../parts/page.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { Time } from '../parts/time.tsx'
import { addressOf, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { CapList } from './caps.tsx'
import { actsOf, type KeyDialog, KeyDialogs, keyActs } from './key-dialogs.tsx'
import { Status } from './key-table.tsx'
import { LabelList } from './labels.tsx'

type KeyWithUsage = ApiKey & { readonly usage?: KeyUsage }

const everyMs = 30_000

/** The key in the address `keys/<id>`. */
export function KeyPage() {
  const { call, me } = useSession()
  const id = usePlace().path.replace(/^keys\//, '')
  const path = `/v1/api-keys/${encodeURIComponent(id)}`
  const { value, error, reload } = useLoaded(id, () => call<KeyWithUsage>('GET', path), everyMs)
  const [dialog, setDialog] = useState<KeyDialog>()
  return (
    <Page
      title={value?.name ?? 'API key'}
      about={value?.description || <Link to={addressOf('keys')}>All keys</Link>}
      actions={
        value?.status === 'active' &&
        actsOf(me.credential).map((act) => (
          <Button
            key={act}
            variant="default"
            {...(act === 'revoke' && { c: 'var(--no-ink)' })}
            onClick={() => setDialog({ act, key: value })}
          >
            {keyActs[act]}
          </Button>
        ))
      }
    >
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending shape="cards" />}
      {value && (
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          <About {...value} />
          <Used {...value} />
        </SimpleGrid>
      )}
      <KeyDialogs dialog={dialog} onClose={() => setDialog(undefined)} onChanged={reload} />
    </Page>
  )
}

function About(record: ApiKey) {
  const { id, keyPrefix, username, subscription, status, expiresAt, lastUsedAt, labels } = record
  const { previous } = record
  return (
    <Facts title="The key" badge={<Status status={status} />}>
      {keyPrefix && <Fact name="Begins with">{keyPrefix}…</Fact>}
      <Fact name="Id">{id}</Fact>
      <Fact name="Owner">{username}</Fact>
      <Fact name="Paid by">
        {subscription}
        <CapList {...record} />
      </Fact>
      <Fact name="Created">
        <Time at={record.createdAt} />
      </Fact>
      <Fact name={status === 'expired' ? 'Expired' : 'Expires'}>
        {expiresAt ? <Time at={expiresAt} /> : 'never'}
      </Fact>
      <Fact name="Last used">{lastUsedAt ? <Time at={lastUsedAt} isDistance /> : 'not yet'}</Fact>
      {previous && (
        <Fact name="The old secret works until">
          <Time at={previous.endsAt} />
        </Fact>
      )}
      {labels && (
        <Fact name="Labels">
          <LabelList labels={labels} />
        </Fact>
      )}
    </Facts>
  )
}

const columns = [
  ['Requests', 'answers'],
  ['Input', 'inputTokens'],
  ['Output', 'outputTokens'],
  ['Tokens', 'totalTokens'],
] as const

function Used({ id, username, usage }: KeyWithUsage) {
  const { me } = useSession()
  const owner = username === me.username ? undefined : { owner: username }
  return (
    <Facts title="Used">
      {usage ? (
        <>
          <Table.Tr>
            <td />
            <Table.Th ta="right" fw={400} c="dimmed">
              Today
            </Table.Th>
            <Table.Th ta="right" fw={400} c="dimmed">
              This month
            </Table.Th>
          </Table.Tr>
          {columns.map(([name, field]) => (
            <Table.Tr key={field}>
              <Table.Th scope="row" fw={400} c="dimmed">
                {name}
              </Table.Th>
              <Table.Td ta="right">{count(usage.today[field])}</Table.Td>
              <Table.Td ta="right">{count(usage.month[field])}</Table.Td>
            </Table.Tr>
          ))}
          <Table.Tr>
            <Table.Td colSpan={3}>
              <Text size="sm">
                Days and months are UTC.{' '}
                <Link to={addressOf('usage', { key: id, ...owner })}>By hour, day and model</Link>
              </Text>
            </Table.Td>
          </Table.Tr>
        </>
      ) : (
        <Table.Tr>
          <Table.Td>The use of keys is only known with a usage journal.</Table.Td>
        </Table.Tr>
      )}
    </Facts>
  )
}
