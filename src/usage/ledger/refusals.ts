/**
 * Counts refusals for spent limits, for the usage ledger. Each process counts its own and adds them from time to time:
 * if it is killed, those that it has not added are missing, and if the database fails, some may be added twice. They
 * are not in the journal, which a spent key could fill.
 */

import type { Grant } from '../../decide/decision.ts'
import { hourMs } from '../../formats/time.ts'
import { userInLines } from '../../ratelimit/rules/counter-key.ts'
import type { UsageGroup, UsageLedger } from '../store.ts'

/** Maximum number of groups between two flushes; refusals of further ones are not counted. */
const maxGroups = 10_000

type Refusals = UsageGroup & { refusals: number }

function add(sums: Map<string, Refusals>, name: string, more: Refusals): void {
  const known = sums.get(name)
  if (known !== undefined) known.refusals += more.refusals
  else if (sums.size < maxGroups) sums.set(name, more)
}

export function createRefusalSums(ledger: Pick<UsageLedger, 'addRefusals'>) {
  let sums = new Map<string, Refusals>()

  return {
    /** Counts the refusal of a request that only its limits refused. */
    note({ caller, subscription, model, payer = '' }: Grant, now: number): void {
      const hour = now - (now % hourMs)
      const keyId = caller.by === 'key' ? caller.keyId : ''
      // As in lines, so that a user's refusals and usage are in one group.
      const user = userInLines(caller.user)
      const name = `${hour}\n${keyId}\n${model.key}\n${subscription}\n${payer}\n${user}`
      add(sums, name, { hour, user, subscription, model: model.key, keyId, payer, refusals: 1 })
    },
    /** Adds them to the ledger. If it is unavailable, the next call adds them. */
    async flush(): Promise<void> {
      const sent = sums
      sums = new Map()
      try {
        await ledger.addRefusals([...sent.values()])
      } catch (error) {
        for (const [name, each] of sums) add(sent, name, each)
        sums = sent
        throw error
      }
    },
  }
}
