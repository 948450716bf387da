/** The whole product with a lane for each concurrent case, keys of each standing, and a meter. */
import type { Test } from 'tap'
import { accessPolicy, modelRef, subscription } from '../../../support/documents.ts'
import { type Gateway, startGateway } from '../../../support/gateway.ts'
import { poll } from '../../../support/poll.ts'
import { type Lane, openLane } from './lane.ts'
import { createMeter, type Meter } from './meter.ts'
import type { Variant } from './servers.ts'

/**
 * A key below its limit, one that has reached it, an identity token, a revoked key, and no
 * credential.
 */
export const standings = ['good', 'spent', 'token', 'revoked', 'none'] as const
export type Standing = (typeof standings)[number]

/** A lane with its users' keys. */
export interface Seat extends Lane {
  readonly variant: string
  readonly keys: Readonly<Record<Standing, string | undefined>>
  /** Tokens counted for its users so far, from a scrape that began after the call. */
  counted(): Promise<number>
}

export interface World {
  readonly gateway: Gateway
  readonly meter: Meter
  /** For concurrent cases, several of each variant. */
  readonly seats: readonly Seat[]
  /** For repeating a case of a variant alone. */
  readonly quiet: ReadonlyMap<string, Seat>
}

/** The phase of a window depends on its owner: of an hour's windows, half would end during half an hour. */
const longWindow = '8784h'

export interface WorldSettings {
  readonly variants: readonly Variant[]
  /** The number of concurrent cases of a variant. */
  readonly width: number
  readonly env?: Record<string, string>
}

export async function startWorld(t: Test, { variants, width, env }: WorldSettings): Promise<World> {
  const lanes: {
    readonly lane: Lane
    readonly variant: string
    readonly output?: object | undefined
    readonly isQuiet: boolean
  }[] = []
  for (const { name: variant, port, read, output } of variants) {
    for (let i = 0; i <= width; i += 1) {
      const name = `l${String(lanes.length).padStart(3, '0')}`
      const lane = await openLane(t, name, port, read)
      lanes.push({ lane, variant, output, isQuiet: i === width })
    }
  }
  const team = { groups: ['team'] }
  const resources = lanes.flatMap(({ lane: { name, url }, output }) => [
    // On shared paths, `sim` is the model that the caller's subscription covers.
    modelRef('sim', { backendUrl: url, modelIds: ['sim'], ...(output && { output }) }, name),
    subscription(`plenty-${name}`, team, { [`${name}/sim`]: [[1_000_000_000, longWindow]] }),
    subscription(`tiny-${name}`, team, { [`${name}/sim`]: [[1, longWindow]] }),
  ])
  const open = accessPolicy(
    'open',
    lanes.map(({ lane }) => `${lane.name}/sim`),
    team,
  )
  const gateway = await startGateway(t, {
    resources: () => [...resources, open],
    ...(env && { env }),
  })
  const { metrics } = gateway.addresses
  if (metrics === undefined) throw new Error('the service shows no metrics')
  const meter = createMeter(`http://127.0.0.1:${metrics.port}/metrics`)
  const seats: Seat[] = []
  const quiet = new Map<string, Seat>()
  for (const { lane, variant, isQuiet } of lanes) {
    const seat = await takeSeat(gateway, meter, lane, variant)
    if (isQuiet) quiet.set(variant, seat)
    else seats.push(seat)
  }
  return { gateway, meter, seats, quiet }
}

async function takeSeat(
  gateway: Gateway,
  meter: Meter,
  lane: Lane,
  variant: string,
): Promise<Seat> {
  const user = gateway.newUser()
  const plenty = { user, subscription: `plenty-${lane.name}` }
  const [good, revoked] = [await gateway.mint(plenty), await gateway.mint(plenty)]
  const poor = gateway.newUser()
  const spent = await gateway.mint({ user: poor, subscription: `tiny-${lane.name}` })
  const path = `/${lane.name}/sim/v1/chat/completions`
  await gateway.chat(spent.key, {}, {}, path)
  await poll(async () => {
    const { status } = await gateway.ask(path, spent.key, { method: 'POST' })
    return status === 429
  }, `the limit of ${variant} is reached`)
  const gone = await gateway.ask(`/v1/api-keys/${revoked.id}`, `token-${user}`, {
    method: 'DELETE',
  })
  if (gone.status >= 300) throw new Error(`the key is not revoked: ${gone.status} ${gone.text}`)
  const keys = {
    ...{ good: good.key, spent: spent.key, token: `token-${user}`, revoked: revoked.key },
    none: undefined,
  }
  return { ...lane, variant, keys, counted: () => meter.tokens(`${lane.name}/sim`) }
}
