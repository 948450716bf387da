/** What definitions and docs/resources.md have of our kinds besides the schemas that documents are read by. */

import type { Rule, Schema } from '../src/formats/schema.ts'
import { specSchemas } from '../src/kinds/resource-schemas.ts'

/** In the order of the docs. */
export const kindSchemas = {
  ModelRef: {
    description: 'A model: its names and where its requests go.',
    spec: specSchemas.ModelRef,
    isSpecRequired: true,
    rules: [
      {
        cel: 'size(self.metadata.name) <= 63',
        message: 'metadata.name must have at most 63 characters to be referred to',
      },
    ],
  },
  AccessPolicy: {
    description:
      'Gives users and groups access to models. Nobody may use a model that no AccessPolicy names.',
    spec: specSchemas.AccessPolicy,
    isSpecRequired: true,
    rules: [],
  },
  Subscription: {
    description:
      'Covers the use of models: which users, which models, and how many tokens each user has.',
    spec: specSchemas.Subscription,
    isSpecRequired: true,
    rules: [],
  },
  Tenant: {
    description: 'Configuration of the whole installation. There is one Tenant, `default-tenant`.',
    spec: specSchemas.Tenant,
    isSpecRequired: false,
    rules: [
      {
        cel: "self.metadata.name == 'default-tenant'",
        message: 'metadata.name must be default-tenant; there is one Tenant',
      },
    ],
  },
} as const satisfies Readonly<Record<keyof typeof specSchemas, KindSchema>>

interface KindSchema {
  readonly description: string
  readonly spec: Schema
  readonly isSpecRequired: boolean
  /** Rules for the whole object. */
  readonly rules: readonly Pick<Rule, 'cel' | 'message'>[]
}
