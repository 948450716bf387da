import { Button, Card, Group, Text } from '@mantine/core'
import type { LimitList } from '../api.ts'
import { AskLink } from '../budgets/ask-link.tsx'
import { budgetsIn, isBudget } from '../budgets/budget.ts'
import { Cards } from '../budgets/budget-cards.tsx'
import { ExpiringKeys } from '../keys/expiring.tsx'
import { useOwnKeys } from '../keys/own-keys.ts'
import { follow, Link } from '../parts/link.tsx'
import { some } from '../parts/numbers.ts'
import { Panel } from '../parts/panel.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { Section } from '../parts/section.tsx'
import { Time } from '../parts/time.tsx'
import { addressOf } from '../route.ts'
import { useSession } from '../session.tsx'
import { byUse, LimitGroup } from '../usage/limits-now.tsx'
import { isWaitingFor, useLoaded } from '../use-loaded.ts'
import { LastRefusals } from './last-refusals.tsx'
import { useOwnRefusals } from './own-refusals.ts'
import { Periods } from './periods.tsx'
import { readPeriods } from './read-periods.ts'
import { TokensPlot } from './tokens-plot.tsx'

const everyMs = 60_000
const limitsEveryMs = 10_000
const shownKeys = 5
const shownLimits = 4
const shownBudgets = 3

/** The overview for holders of keys. */
export function Mine() {
  const session = useSession()
  const { call, me } = session
  const usage = useLoaded('', () => readPeriods(session, me.username), everyMs)
  const limits = useLoaded('', () => call<LimitList>('GET', '/v1/limits'), limitsEveryMs)
  const refusals = useOwnRefusals()
  const keys = useOwnKeys()
  const hasUsed = usage.value === undefined ? me.ledger : usage.value.models.length > 0
  const budgets = budgetsIn(limits.value?.data ?? [])
  const isNew = me.credential === 'identity-token' && !hasUsed
  return (
    <>
      <ExpiringKeys after={keys.value} />
      <Problem error={limits.error ?? refusals.error ?? keys.error ?? usage.error} />
      {isNew && keys.value?.data.length === 0 && <Begin />}
      {me.ledger && isWaitingFor(usage) && <Pending shape="figures" />}
      {usage.value && <Periods {...usage.value} />}
      {usage.value && <TokensPlot {...usage.value} more={addressOf('usage')} />}
      {isWaitingFor(limits) && <Pending shape="cards" />}
      {budgets.length > 0 && (
        <Section title="Budgets" action={<Link to={addressOf('budgets')}>All budgets</Link>}>
          <Cards
            budgets={budgets.slice(0, shownBudgets)}
            currency={limits.value?.currency}
            more={(budget) => <AskLink limit={budget} />}
          />
        </Section>
      )}
      {!isWaitingFor(limits) && (
        <div className="halves">
          {limits.value && <Left {...limits.value} />}
          {keys.value && keys.value.data.length > 0 && <Keys {...keys.value} />}
          {refusals.value && <LastRefusals {...refusals.value} all={addressOf('explain')} />}
        </div>
      )}
    </>
  )
}

/** The first steps of a user without a key. */
function Begin() {
  const address = addressOf('keys', { new: '1' })
  return (
    <Card withBorder component="section" aria-label="Your first call">
      <Group justify="space-between" gap="lg">
        <div className="heading">
          <Text className="title" component="h2">
            Your first call, in a minute
          </Text>
          <Text size="sm" c="dimmed">
            Make a key, copy the lines for your client, and call a model. Its use is then shown
            here.
          </Text>
        </div>
        <Button component="a" href={address} onClick={(event) => follow(event, address)}>
          Make your first key
        </Button>
      </Group>
    </Card>
  )
}

function Left({ data, currency }: LimitList) {
  const groups = byUse(data.filter((limit) => !isBudget(limit)))
  return (
    <Panel title="What is left" more={[addressOf('models'), 'All limits']}>
      {groups.length === 0 && (
        <Text size="sm" c="dimmed">
          No limit applies to you.
        </Text>
      )}
      {groups.slice(0, shownLimits).map(({ model, subscription, states }) => (
        <div key={`${model} ${subscription}`} className="group">
          <LimitGroup {...{ model, subscription, states, currency }} />
        </div>
      ))}
    </Panel>
  )
}

function Keys({ data, has_more }: NonNullable<ReturnType<typeof useOwnKeys>['value']>) {
  return (
    <Panel
      title={has_more ? 'More than 100 active keys' : some(data.length, 'active key')}
      label="API keys"
      more={[addressOf('keys'), 'All keys']}
    >
      <ul className="rows">
        {data.slice(0, shownKeys).map(({ id, name, subscription, lastUsedAt }) => (
          <li key={id}>
            <div className="grows">
              <div>
                <Link to={addressOf(`keys/${id}`)}>{name}</Link>
              </div>
              <div className="note">{subscription}</div>
            </div>
            <span className="note whole">
              {lastUsedAt ? (
                <>
                  used <Time at={lastUsedAt} isDistance />
                </>
              ) : (
                'not used yet'
              )}
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  )
}
