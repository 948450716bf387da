/** One condition of a resource's status (contract, 7.2). */
export interface Condition {
  readonly type:
    | 'Ready'
    | 'SpecPriorityDuplicate'
    | 'BackendReachable'
    | 'Bypass'
    | 'Programmed'
    | 'Accepted'
    | 'Enforced'
    | 'ModelIdentityUnique'
    | 'GovernanceAttached'
    | 'RuntimeReady'
  readonly status: 'True' | 'False' | 'Unknown'
  readonly reason: string
  readonly message: string
}
