import { Alert, Group, List, NativeSelect, Text } from '@mantine/core'
import type { ResourceList } from '../api.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Dot } from '../parts/dot.tsx'
import { Filter } from '../parts/filter.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { Pages, pageIn } from '../parts/pages.tsx'
import { Problem } from '../parts/problem.tsx'
import { WrittenAt } from '../parts/written-at.tsx'
import { refine, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'

const kinds = ['ModelRef', 'AccessPolicy', 'Subscription', 'Tenant']
const pageSize = 50
const everyMs = 15_000

export function ResourcesPage() {
  const { call } = useSession()
  const { query } = usePlace()
  const [page, kind] = [pageIn(query), query.get('kind') ?? '']
  const asked = new URLSearchParams({
    ...(kind !== '' && { kind }),
    contains: query.get('find') ?? '',
    limit: String(pageSize),
    offset: String((page - 1) * pageSize),
  }).toString()
  const { value, error } = useLoaded(
    asked,
    () => call<ResourceList>('GET', `/v1/admin/resources?${asked}`),
    everyMs,
  )
  return (
    <Page
      title="Resources"
      about="What is in force, in which condition, and where it is written. They are changed in their files or in the cluster."
    >
      <Group align="flex-end">
        <NativeSelect
          label="Kind"
          value={kind}
          onChange={({ currentTarget }) => refine({ kind: currentTarget.value, page: '' })}
          data={[{ value: '', label: 'All' }, ...kinds]}
        />
        <Filter name="find" label="Find" placeholder="namespace/name" />
      </Group>
      <Problem error={error} />
      {value && value.problems.length > 0 && <Problems {...value} />}
      {value?.data.length === 0 && <Nothing title="No resource fits" />}
      {value && value.data.length > 0 && (
        <DataTable
          label="Resources"
          columns={columns}
          rows={value.data}
          keyOf={({ kind, namespace, name }) => `${kind} ${namespace}/${name}`}
        />
      )}
      {value && <Pages page={page} hasMore={value.has_more} />}
    </Page>
  )
}

function Problems({ problems, more_problems }: ResourceList) {
  const count = problems.length + more_problems
  return (
    <Alert
      color="red"
      variant="outline"
      title={count === 1 ? 'One problem' : `${count} problems`}
      role="status"
    >
      <List size="sm" spacing={4}>
        {problems.map((problem) => (
          <List.Item key={problem} className="breaks">
            {problem}
          </List.Item>
        ))}
      </List>
      {more_problems > 0 && <Text size="sm">And {more_problems} more.</Text>}
    </Alert>
  )
}

const phases: Readonly<Record<string, 'green' | 'yellow' | 'red'>> = {
  Ready: 'green',
  Active: 'green',
  Pending: 'yellow',
  Degraded: 'yellow',
  Failed: 'red',
}

/** These say that something is wrong when they are true. */
const alarms = ['SpecPriorityDuplicate', 'Bypass']

const columns: readonly Column<ResourceList['data'][number]>[] = [
  { title: 'Resource', cell: (resource) => <WrittenAt {...resource} /> },
  {
    title: 'Phase',
    cell: ({ phase }) => phase && <Dot color={phases[phase] ?? 'gray'}>{phase}</Dot>,
  },
  {
    title: 'Conditions',
    kind: 'wide',
    cell: ({ conditions }) =>
      conditions.map(({ type, status, reason, message }) => {
        const isWell = status === (alarms.includes(type) ? 'False' : 'True')
        return (
          <div key={type} className={isWell ? 'dimmed' : undefined}>
            {type}: {status}
            {!isWell && `, ${reason}`}
            {message && `: ${message}`}
          </div>
        )
      }),
  },
]
