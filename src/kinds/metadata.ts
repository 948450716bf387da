/** The metadata of a resource of any kind. */

/** The only namespace in which AccessPolicies, Subscriptions and the Tenant are read. */
export const subscriptionNamespace = 'models-as-a-service'

/** The only namespace in which AITenants are read. */
export const tenantsNamespace = 'ai-tenants'

export interface Metadata {
  readonly name: string
  readonly namespace: string
  readonly annotations: Readonly<Record<string, string>>
  /** Milliseconds since the epoch; undefined if the document has none. */
  readonly createdAt: number | undefined
  readonly deleting: boolean
  /** As written; only present while `deleting`. */
  readonly deletionTimestamp?: string
}
