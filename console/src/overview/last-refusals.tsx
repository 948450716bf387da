import { Group, Text } from '@mantine/core'
import type { Refusal } from '../api.ts'
import { wordsOf } from '../parts/codes.ts'
import { Link } from '../parts/link.tsx'
import { Panel } from '../parts/panel.tsx'
import { Time } from '../parts/time.tsx'
import { within } from '../parts/within.ts'
import { addressOf } from '../route.ts'

interface LastRefusalsProps {
  /** The refusals. */
  readonly data: readonly Refusal[]
  readonly since?: string
  readonly showsUser?: boolean
  /** The address of the full list. */
  readonly all: string
}

const shown = 5

/** The last refusals, each with its reason and a link to an explanation. */
export function LastRefusals({ data, since, showsUser = false, all }: LastRefusalsProps) {
  const isMore = data.length > shown
  return (
    <Panel title="Last refusals" more={isMore ? [all, 'All of the last hour'] : undefined}>
      {data.length === 0 && (
        <Text size="sm" c="dimmed">
          Nothing was refused {within(since)}.
        </Text>
      )}
      <ul className="rows">
        {data.slice(0, shown).map((refusal) => (
          <RefusalRow key={`${refusal.requestId} ${refusal.at}`} {...{ refusal, showsUser }} />
        ))}
      </ul>
    </Panel>
  )
}

interface RefusalRowProps {
  readonly refusal: Refusal
  readonly showsUser: boolean
}

export function RefusalRow({ refusal, showsUser }: RefusalRowProps) {
  const { requestId, at, status, code, message, model, user } = refusal
  return (
    <li>
      <span className="status" data-kind={status === 429 ? 'wait' : 'no'}>
        {status}
      </span>
      <div className="grows">
        <Group justify="space-between" align="baseline" wrap="nowrap" gap="sm">
          <Link to={addressOf('explain', { request: requestId })}>
            {wordsOf(code, showsUser).title}
          </Link>
          <span className="note whole">
            <Time at={at} isDistance />
          </span>
        </Group>
        <div className="note clamp" title={message}>
          {showsUser && `${user ?? 'nobody'} · `}
          {model && `${model} · `}
          {message}
        </div>
      </div>
    </li>
  )
}
