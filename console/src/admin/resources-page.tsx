import { Alert, Group, List, NativeSelect, Text } from '@mantine/core'
import type { ResourceList } from '../api.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Dot } from '../parts/dot.tsx'
import { Filter } from '../parts/filter.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { EmptyPage, Pages, pageIn } from '../parts/pages.tsx'
import { Pending } from '../parts/pending.tsx'
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
      about="All resources, their conditions, and where they are defined. Change them in their files or in the cluster."
    >
      <Group gap="sm">
        <NativeSelect
          aria-label="Kind"
          value={kind}
          onChange={({ currentTarget }) => refine({ kind: currentTarget.value, page: '' })}
          data={[{ value: '', label: 'All kinds' }, ...kinds]}
        />
        <Filter name="find" label="Find" placeholder="Find namespace/name" />
      </Group>
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending />}
      {value && value.problems.length > 0 && <Problems {...value} />}
      {value?.data.length === 0 &&
        (page > 1 ? <EmptyPage /> : <Nothing title="No resource matches" />)}
      {value && value.data.length > 0 && (
        <DataTable
          label="Resources"
          columns={columns}
          rows={value.data}
          keyOf={({ kind, namespace, name }) => `${kind} ${namespace}/${name}`}
        />
      )}
      {value && value.data.length > 0 && <Pages page={page} hasMore={value.has_more} />}
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

/** Conditions that report a problem when they are true. */
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
    cell: ({ conditions }) => <Conditions conditions={conditions} />,
  },
]

type Condition = ResourceList['data'][number]['conditions'][number]

function isWell({ type, status }: Condition): boolean {
  return status === (alarms.includes(type) ? 'False' : 'True')
}

/** The conditions with a problem; the others are folded. */
function Conditions({ conditions }: { readonly conditions: readonly Condition[] }) {
  const well = conditions.filter(isWell)
  return (
    <>
      {conditions
        .filter((each) => !isWell(each))
        .map(({ type, status, reason, message }) => (
          <div key={type}>
            {type}: {status}, {reason}
            {message && `: ${message}`}
          </div>
        ))}
      {well.length > 0 && (
        <details>
          <summary className="note">
            {well.length === conditions.length
              ? 'All as expected'
              : `${well.length} more as expected`}
          </summary>
          {well.map(({ type, status, message }) => (
            <div key={type} className="dimmed">
              {type}: {status}
              {message && `: ${message}`}
            </div>
          ))}
        </details>
      )}
    </>
  )
}
