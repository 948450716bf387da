import type { LimitList, Model, Subscription } from '../api.ts'
import { isBudget } from '../budgets/budget.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Filter } from '../parts/filter.tsx'
import { isSpent, LimitBars, UnreadBars } from '../parts/limits.tsx'
import { Link } from '../parts/link.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { addressOf, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { limitsOf, type Offer, readOffers } from './offers.ts'

/** Interval between reads of usage, in milliseconds. */
const everyMs = 10_000
/** Up to this number the table has no filter. */
const unfiltered = 10

export function ModelsPage() {
  const { call } = useSession()
  const { value, error } = useLoaded('', () => readOffers(call))
  const limits = useLoaded('', () => call<LimitList>('GET', '/v1/limits'), everyMs)
  const find = usePlace().query.get('find') ?? ''
  const found = value?.filter((offer) => textOf(offer).includes(find.toLowerCase())) ?? []
  return (
    <Page
      title="Models"
      about="What you may call, and which subscription pays for it. Open a model to try it."
    >
      <Problem error={error ?? limits.error} />
      {value === undefined && error === undefined && <Pending />}
      {value?.length === 0 && (
        <Nothing title="No model is open to you">
          A model must be in a subscription of yours and open to you or one of your groups. See{' '}
          <Link to={addressOf('explain')}>why</Link>, or ask an administrator.
        </Nothing>
      )}
      {value && (value.length > unfiltered || find !== '') && (
        <Filter name="find" label="Find" placeholder="Find model or subscription" />
      )}
      {value && value.length > 0 && found.length === 0 && <Nothing title="No model fits" />}
      {found.length > 0 && (
        <DataTable
          label="Models"
          columns={columnsOf(limits.value)}
          rows={found}
          keyOf={({ model }) => `${model.owned_by} ${model.id}`}
        />
      )}
    </Page>
  )
}

/** What the filter searches. */
function textOf({ model, subscriptions }: Offer): string {
  const names = subscriptions.flatMap((each) => [each.subscription_id_header, each.display_name])
  return [model.id, model.owned_by, model.modelDetails?.displayName, ...names]
    .join('\n')
    .toLowerCase()
}

const columnsOf = (limits: LimitList | undefined): readonly Column<Offer>[] => [
  {
    title: 'Model',
    cell: ({ model }) => (
      <>
        <Link to={addressOf(`models/${model.owned_by}`, { id: model.id })}>{nameOf(model)}</Link>{' '}
        {!model.ready && <span className="tag">not ready</span>}
        <div className="note">{aboutModel(model)}</div>
      </>
    ),
  },
  {
    title: 'Subscriptions and their limits',
    kind: 'tall',
    cell: ({ model, subscriptions }) =>
      subscriptions.map((subscription) => (
        <Subscribed
          key={subscription.subscription_id_header}
          {...{ model, subscription, limits }}
        />
      )),
  },
]

interface SubscribedProps {
  readonly model: Model
  readonly subscription: Subscription
  /** Undefined until they are read. */
  readonly limits: LimitList | undefined
}

function Subscribed({ model, subscription, limits }: SubscribedProps) {
  const { subscription_id_header: name, display_name } = subscription
  return (
    <div className="group">
      <b className="breaks">{display_name ?? name}</b>
      {limits === undefined ? (
        <UnreadBars limits={limitsOf(subscription, model)} />
      ) : (
        <LimitBars
          limits={statesOf(model, subscription, limits)}
          currency={limits.currency}
          of={`${model.id}, ${name}`}
        />
      )}
    </div>
  )
}

/** What is left of the model's limits in this subscription, and the limits by name that belong beside them. */
function statesOf(model: Model, subscription: Subscription, { data }: LimitList) {
  const { subscription_id_header: name } = subscription
  const states = new Map(data.map((each) => [keyOf(each), each]))
  return [
    ...limitsOf(subscription, model).map((limit) => ({
      // If nothing has been counted.
      ...{ used: 0, remaining: limit.limit, percentLeft: 100, resetsAt: null },
      ...states.get(keyOf({ ...limit, name: null, subscription: name, model: model.owned_by })),
      ...limit,
    })),
    ...data.filter((limit) => isBeside(limit, name, model)),
  ]
}

type CallerLimit = LimitList['data'][number]

/**
 * Whether a limit by name belongs beside those of the model. Budgets have their own page, so they do only when nothing
 * is left of them: they refuse then.
 */
function isBeside(limit: CallerLimit, paying: string, { owned_by }: Model): boolean {
  const { name, subscription, model, models, enforced } = limit
  if (name === null || (subscription ?? paying) !== paying) return false
  const isOfModel = models?.includes(owned_by) ?? (model ?? owned_by) === owned_by
  return isOfModel && (isBudget(limit) ? enforced && isSpent(limit) : true)
}

function keyOf({
  subscription,
  model,
  name,
  kind,
  window,
}: Pick<CallerLimit, 'subscription' | 'model' | 'name' | 'kind' | 'window'>): string {
  return JSON.stringify([subscription, model, name, kind, window])
}

/** The id of a model, with its namespace if it is the name of the ModelRef. */
export function nameOf({ id, owned_by }: Pick<Model, 'id' | 'owned_by'>): string {
  return owned_by.endsWith(`/${id}`) ? owned_by : id
}

/** The description of a model by its server or operator, besides its name. */
export function aboutModel(model: Model): string {
  const { owned_by, modelDetails = {} } = model
  const { displayName, description, contextWindow } = modelDetails
  const owner = owned_by !== nameOf(model) && owned_by
  const context = contextWindow && `context of ${contextWindow} tokens`
  return [displayName, owner, description, context].filter((each) => each).join(' · ')
}
