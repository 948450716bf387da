import { Alert, TextInput } from '@mantine/core'
import { useState } from 'react'
import { Icon } from '../parts/icon.tsx'
import { Page } from '../parts/page.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { type Description, type Operation, operationsOf } from './document.ts'
import { OperationDetails } from './operation-details.tsx'

/** The API's own description, to be tried with the credential of the session. */
export function ReferencePage() {
  const { call, me } = useSession()
  const { value, error } = useLoaded('', () => call<Description>('GET', '/openapi.json'))
  const [sought, setSought] = useState('')
  const found =
    value &&
    operationsOf(value).filter(({ method, path, summary = '' }) =>
      `${method} ${path} ${summary}`.toLowerCase().includes(sought.toLowerCase()),
    )
  const groups = groupsOf(found ?? [], value)
  return (
    <Page
      title="API reference"
      about={
        <>
          The REST API at {location.origin}. Its description is{' '}
          <a className="link" href="/openapi.json" target="_blank" rel="noreferrer">
            openapi.json
          </a>
          . What you send here is sent as {me.username}, with the credential that you have signed in
          with.
        </>
      }
    >
      <TextInput
        aria-label="Find"
        placeholder="Find path or text"
        leftSection={<Icon name="search" size={16} />}
        onChange={({ currentTarget }) => setSought(currentTarget.value.trim())}
        w={{ base: '100%', xs: 290 }}
      />
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending />}
      {found?.length === 0 && <Alert variant="outline">No operation matches.</Alert>}
      {value &&
        groups.map(([tag, operations]) => (
          <section key={tag} aria-label={tag} className="operations">
            <h2 className="title">{tag}</h2>
            {operations.map((operation) => (
              <OperationDetails
                key={`${operation.method} ${operation.path}`}
                {...{ operation }}
                description={value}
              />
            ))}
          </section>
        ))}
    </Page>
  )
}

/** The operations of each tag, in the order of the description's tags. */
function groupsOf(operations: readonly Operation[], description: Description | undefined) {
  const names = new Set([
    ...(description?.tags?.map(({ name }) => name) ?? []),
    ...operations.map(tagOf),
  ])
  return [...names]
    .map((name) => [name, operations.filter((each) => tagOf(each) === name)] as const)
    .filter(([, each]) => each.length > 0)
}

function tagOf({ tags }: Operation): string {
  return tags?.[0] ?? 'Others'
}
