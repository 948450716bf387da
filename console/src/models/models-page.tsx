import type { Model, Subscription } from '../api.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { LimitList } from '../parts/limits.tsx'
import { Link } from '../parts/link.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { Problem } from '../parts/problem.tsx'
import { addressOf } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { limitsOf, type Offer, readOffers } from './offers.ts'

export function ModelsPage() {
  const { call } = useSession()
  const { value, error } = useLoaded('', () => readOffers(call))
  return (
    <Page
      title="Models"
      about="What you may call, and which subscription pays for it. Open a model to see what is left of its limits and to try it."
    >
      <Problem error={error} />
      {value?.length === 0 && (
        <Nothing title="No model is open to you">
          A model must be in a subscription of yours and open to you or one of your groups. Ask{' '}
          <Link to={addressOf('explain')}>why</Link>, or an administrator.
        </Nothing>
      )}
      {value && value.length > 0 && (
        <DataTable
          label="Models"
          columns={columns}
          rows={value}
          keyOf={({ model }) => `${model.owned_by} ${model.id}`}
        />
      )}
    </Page>
  )
}

const columns: readonly Column<Offer>[] = [
  {
    title: 'Model',
    cell: ({ model }) => (
      <>
        <Link to={addressOf(`models/${model.owned_by}`, { id: model.id })}>{model.id}</Link>{' '}
        {!model.ready && <span className="tag">not ready</span>}
        <div className="note">{aboutModel(model)}</div>
      </>
    ),
  },
  {
    title: 'Subscriptions and their limits',
    kind: 'wide',
    cell: ({ model, subscriptions }) =>
      subscriptions.map((subscription) => (
        <Subscribed key={subscription.subscription_id_header} {...{ model, subscription }} />
      )),
  },
]

function Subscribed({ model, subscription }: { model: Model; subscription: Subscription }) {
  const limits = limitsOf(subscription, model)
  return (
    <div>
      {subscription.display_name ?? subscription.subscription_id_header}
      {limits.length > 0 && ': '}
      <LimitList limits={limits} />
    </div>
  )
}

/** What its server or its operator says of a model. */
export function aboutModel({ owned_by, modelDetails = {} }: Model): string {
  const { displayName, description, contextWindow } = modelDetails
  const about = [displayName, description, contextWindow && `${contextWindow} tokens of context`]
  return [owned_by, ...about.filter((each) => each)].join(' · ')
}
