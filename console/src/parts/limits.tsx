import { Progress, Stack, Table, Text } from '@mantine/core'
import { Time } from './time.tsx'

interface Rate {
  readonly limit: number
  readonly window: string
}

/** Limits as a subscription states them for a model. */
export interface StatedLimits {
  readonly token_rate_limits?: readonly Rate[]
  readonly request_rate_limits?: readonly Rate[]
  readonly concurrency?: number
}

export interface Limit {
  readonly kind: 'tokens' | 'requests' | 'concurrency'
  /** null: of concurrency. */
  readonly window: string | null
  readonly limit: number
}

export function limitsIn(stated: StatedLimits): readonly Limit[] {
  const { token_rate_limits = [], request_rate_limits = [], concurrency } = stated
  return [
    ...token_rate_limits.map((rate) => ({ kind: 'tokens', ...rate }) as const),
    ...request_rate_limits.map((rate) => ({ kind: 'requests', ...rate }) as const),
    ...(concurrency === undefined
      ? []
      : [{ kind: 'concurrency', window: null, limit: concurrency } as const]),
  ]
}

/** Limits without what is used of them. */
export function LimitList(stated: StatedLimits) {
  return <>{limitsIn(stated).map(whole).join(', ')}</>
}

const numbers = new Intl.NumberFormat()

export function count(value: number): string {
  return numbers.format(value)
}

function tokens(value: number): string {
  return `${count(value)} ${value === 1 ? 'token' : 'tokens'}`
}

export interface LimitState extends Limit {
  readonly used: number
  readonly remaining: number
  readonly resetsAt: string | null
}

/** `100,000 tokens per 1h`. */
export function whole({ kind, limit, window }: Limit): string {
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
  readonly models: readonly (StatedLimits & { readonly name: string })[]
}) {
  return (
    <Table withRowBorders={false} verticalSpacing={2} horizontalSpacing={0} fz="xs">
      <Table.Tbody>
        {models.map(({ name, ...stated }) => (
          <Table.Tr key={name}>
            <Table.Td pr="md" className="breaks">
              {name}
            </Table.Td>
            <Table.Td>
              <LimitList {...stated} />
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  )
}
