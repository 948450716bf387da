/**
 * The resources in force with their phases, and why others are not: `GET /internal/v1/resources` for
 * operators, `GET /v1/admin/resources` for administrators.
 */

import type { FromSchema } from 'json-schema-to-ts'
import { resourceStatuses } from '../../cluster/rules/conditions.ts'
import { statusViewsOf } from '../../cluster/rules/enforcement.ts'
import { policyStatuses } from '../../cluster/rules/generated-policies.ts'
import { overshootBounds } from '../../cluster/rules/overshoot.ts'
import type { ExternalDeps, SharedDeps } from '../deps.ts'
import { placeOf } from '../explain/resource-place.ts'
import type { Api } from '../http/api.ts'
import { hasMoreField, pageOf, pageQuery, readPage } from '../http/page.ts'
import { integer, objects, optional, responses, strings } from '../http/schema.ts'

/** `GET /internal/v1/resources`. */
export function listResources(app: Api, deps: SharedDeps): void {
  app.get('/internal/v1/resources', async () => ({
    object: 'list',
    data: await readResources(deps),
    problems: deps.resourceProblems(),
    bounds: [...overshootBounds(deps.snapshot())],
  }))
}

/** Ordered by kind, namespace and name; generated policies come last. */
async function readResources(deps: SharedDeps) {
  const enforcement = await deps.enforcement()
  const view = statusViewsOf(enforcement)
  return [
    ...resourceStatuses(enforcement.snapshot, { backendOf: deps.backendOf, ...view }),
    ...policyStatuses(enforcement.policies, view.policyConditions),
  ]
}

/** Maximum number of problems in one response. */
const problemsShown = 200

const text = { type: 'string' } as const
const filter = { type: 'string', maxLength: 1_024 } as const

const schema = {
  operationId: 'listResources',
  summary: 'List the resources with their conditions',
  description:
    'For administrators: every ModelRef, AccessPolicy, Subscription and Tenant in force and the generated policies, with the place where each is defined, and the problems of those that are not in force.',
  tags: ['Administration'],
  security: [{ identityToken: [] }],
  querystring: {
    type: 'object',
    properties: {
      kind: { ...filter, description: 'Only of this kind.', examples: ['ModelRef'] },
      contains: { ...filter, description: 'Only with this text in `<namespace>/<name>`.' },
      ...pageQuery,
    },
  },
  response: responses(
    'A page of them, ordered by kind, namespace and name.',
    [400],
    'ResourceList',
    {
      object: { type: 'string', const: 'list' },
      data: objects('ResourceStatus', {
        kind: { ...text, examples: ['ModelRef'] },
        namespace: text,
        name: text,
        phase: optional({
          ...text,
          description: 'Not of generated policies.',
          examples: ['Ready'],
        }),
        conditions: objects('Condition', {
          type: { ...text, examples: ['Ready'] },
          status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
          reason: text,
          message: text,
        }),
        file: optional({ ...text, description: 'Of resources in files.' }),
        line: optional({ type: 'integer', minimum: 1 }),
      }),
      has_more: hasMoreField,
      problems: strings('One sentence each, with file and line where there are any.', {
        examples: [['models.yaml:12: error: spec.backendUrl must be a URL']],
      }),
      more_problems: integer('How many are omitted.', { minimum: 0 }),
    },
  ),
} as const

/** The response. */
export type ResourceList = FromSchema<(typeof schema.response)[200]>

/** Adds the route for administrators. */
export function listResourcesToAdmins(app: Api, { locate, ...deps }: ExternalDeps): void {
  app.get('/v1/admin/resources', { schema }, async (request) => {
    const { kind, contains = '' } = request.query
    const page = readPage(request.query)
    const matching = (await readResources(deps)).filter(
      (each) =>
        (kind === undefined || each.kind === kind) &&
        `${each.namespace}/${each.name}`.includes(contains),
    )
    const { data, has_more } = pageOf(matching, page)
    const problems = deps.resourceProblems()
    return {
      object: 'list',
      // The schema omits the `spec` of generated policies.
      data: data.map((each) => ({
        ...each,
        ...placeOf(locate, `${each.kind}/${each.namespace}/${each.name}`),
      })),
      has_more,
      problems: problems.slice(0, problemsShown),
      more_problems: Math.max(0, problems.length - problemsShown),
    }
  })
}
