import { Card, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import type { ServiceState } from '../api.ts'
import { Dot } from '../parts/dot.tsx'
import { Link } from '../parts/link.tsx'
import { some } from '../parts/numbers.ts'
import { addressOf } from '../route.ts'

/** One line that says whether all components work. */
export function Health(state: ServiceState) {
  const { ready, degraded, database, redis, journal, replicas, resources } = state
  const { uncounted_calls: uncounted } = state
  const isWell = ready && degraded.length === 0
  return (
    <Card withBorder component="section" aria-label="Health" className="health" py="sm">
      <Text fw={600} size="sm" component="h2">
        <Dot color={isWell ? 'green' : ready ? 'yellow' : 'red'}>
          {isWell ? 'All parts work' : ready ? `Degraded: ${degraded.join(', ')}` : 'Not ready'}
        </Dot>
      </Text>
      <Part name="Processes">{replicas?.length ?? 'not known'}</Part>
      <Part name="Database">{database.available ? 'available' : 'unavailable'}</Part>
      <Part name="Counters">
        {redis ? (redis.available ? 'Redis' : 'Redis unavailable') : 'in memory'}
      </Part>
      {journal && <Part name="Journal">{journal.failing ? 'failing' : 'read'}</Part>}
      <Part name="Resources">
        {resources.problems > 0 ? (
          <Link to={addressOf('resources')}>{some(resources.problems, 'problem')}</Link>
        ) : (
          `${some(resources.models, 'model')}, ${some(resources.subscriptions, 'subscription')}`
        )}
      </Part>
      {uncounted > 0 && (
        <Part name="Not counted">
          <Link to={addressOf('state')}>{some(uncounted, 'call')}</Link>
        </Part>
      )}
      <Link to={addressOf('state')}>State</Link>
    </Card>
  )
}

function Part({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <span className="part">
      <span className="dimmed">{name}</span> {children}
    </span>
  )
}
