import { Progress, Stack, Table, Text } from '@mantine/core'
import { Time } from './time.tsx'

/** The limits of a model under a subscription, without what is used of them. */
export function LimitList({
  limits,
}: {
  readonly limits: readonly { readonly limit: number; readonly window: string }[]
}) {
  return <>{limits.map(({ limit, window }) => `${tokens(limit)} per ${window}`).join(', ')}</>
}

const numbers = new Intl.NumberFormat()

export function count(value: number): string {
  return numbers.format(value)
}

function tokens(value: number): string {
  return `${count(value)} ${value === 1 ? 'token' : 'tokens'}`
}

interface LimitState {
  readonly kind: 'tokens' | 'requests' | 'concurrency'
  /** null: of concurrency. */
  readonly window: string | null
  readonly limit: number
  readonly used: number
  readonly remaining: number
  readonly resetsAt: string | null
}

function whole({ kind, limit, window }: LimitState): string {
  if (kind === 'tokens') return `${tokens(limit)} per ${window}`
  const requests = `${count(limit)} ${limit === 1 ? 'request' : 'requests'}`
  return window === null ? `${requests} at a time` : `${requests} per ${window}`
}

/** What is left of each limit, and when it is whole again. */
export function LimitBars({
  limits,
  of,
}: {
  readonly limits: readonly LimitState[]
  readonly of: string
}) {
  if (limits.length === 0) return <Text size="sm">No limit.</Text>
  return (
    <Stack gap="sm">
      {limits.map((state) => {
        const { kind, window, limit, used, remaining, resetsAt } = state
        const share = Math.min(100, (used / limit) * 100)
        const isSpent = remaining === 0
        return (
          <div key={`${kind} ${window} ${limit}`}>
            <Progress.Root size="lg">
              <Progress.Section
                value={share}
                color={isSpent ? 'red' : share > 80 ? 'yellow' : 'indigo'}
                aria-label={`Used of ${whole(state)} of ${of}`}
              />
            </Progress.Root>
            <Text size="xs" className="numbers">
              {isSpent
                ? `All ${whole(state)} are used`
                : `${count(remaining)} left of ${whole(state)}`}
              {used > 0 && resetsAt !== null && (
                <>
                  , resets <Time at={resetsAt} isDistance />
                </>
              )}
            </Text>
          </div>
        )
      })}
    </Stack>
  )
}

/** The models that a subscription pays for. */
export function Gives({
  models,
}: {
  readonly models: readonly {
    readonly name: string
    readonly token_rate_limits?: readonly { readonly limit: number; readonly window: string }[]
  }[]
}) {
  return (
    <Table withRowBorders={false} verticalSpacing={2} horizontalSpacing={0} fz="xs">
      <Table.Tbody>
        {models.map(({ name, token_rate_limits = [] }) => (
          <Table.Tr key={name}>
            <Table.Td pr="md" className="breaks">
              {name}
            </Table.Td>
            <Table.Td>
              <LimitList limits={token_rate_limits} />
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  )
}
