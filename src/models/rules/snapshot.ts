/**
 * All resources compiled into one immutable value, indexed for the request path: the models, who may use them, and what
 * each subscription grants. A request keeps the Snapshot that it began with; a change publishes a new one.
 */

import { hash } from 'node:crypto'
import type { FieldPath } from '../../formats/fields.ts'
import type { WrittenCalendar } from '../../kinds/limits.ts'
import {
  type AccessPolicy,
  type AdmissionMode,
  type AdmissionRules,
  type ModelRef,
  qualifiedName,
  type Resource,
  type Subscription,
  type Tenant,
  type Tier,
} from '../../kinds/resources.ts'
import type { ModelFactors } from '../../ratelimit/rules/estimates/held-amounts.ts'
import type { CountedLimit } from '../../ratelimit/rules/limit.ts'

export type Phase = 'Pending' | 'Ready' | 'Active' | 'Degraded' | 'Failed'

export interface Model {
  /** `<namespace>/<name>`. */
  readonly key: string
  readonly resource: ModelRef
  readonly phase: Phase
  /** Name of the model's Envoy cluster; undefined if it has no backend. */
  readonly cluster: string | undefined
  /** Path of the backend's URL, without a trailing slash. */
  readonly basePath: string
  /** The names that a body may use for it, separated by tabs; undefined if its server's ids are unknown. */
  readonly bodyNames: string | undefined
  /** Union of the subjects of all policies that name the model. */
  readonly users: ReadonlySet<string>
  readonly groups: ReadonlySet<string>
  /** The names of these policies, ordered. */
  readonly policies: readonly string[]
}

/** The state of a resource's references to models. */
export interface References {
  readonly phase: Phase
  /** `<namespace>/<name>` of each, ordered. */
  readonly modelKeys: readonly string[]
  /** Models that do not exist, or whose entry is not in force. */
  readonly missing: ReadonlySet<string>
  readonly problems: readonly ResourceProblem[]
}

export interface CompiledSubscription extends References {
  readonly name: string
  readonly resource: Subscription
  /** How it reserves, or undefined if it only counts. */
  readonly admission?: AdmissionRules | undefined
  readonly users: ReadonlySet<string>
  readonly groups: ReadonlySet<string>
  /**
   * The limits that refuse, by model key, including the model's and the Tenant's; limits on requests come last. A
   * `missing` model has none.
   */
  readonly limits: ReadonlyMap<string, readonly CountedLimit[]>
  /** Its other terms for these models, by model key; none for a model that is missing here. */
  readonly terms: ReadonlyMap<string, ModelTerms>
  /** For its own limits, and for its keys' limits. */
  readonly calendar: WrittenCalendar
  /** Whether one of its limits counts by group. */
  readonly hasPools: boolean
  /** Negative priorities count as 0 (contract, 3.12). */
  readonly priority: number
  /** Largest single limit of all models, windows ignored (contract, 3.12). */
  readonly maxLimit: number
}

/** The terms of a Subscription for a model, besides the limits that refuse. */
export interface ModelTerms {
  /** Limits that are only counted and shown, if any. */
  readonly observed: readonly CountedLimit[] | undefined
  /** How lines are charged, or undefined if by tokens alone. */
  readonly tariff: CompiledTariff | undefined
  /** Payer and rate (payer.ts), if set. */
  readonly payer: string | undefined
}

export interface CompiledTariff {
  /** As in lines (usage/rules/line-head.ts). */
  readonly text: string
  /** Whether a limit on money refuses. */
  readonly hasCostLimit: boolean
  readonly isPriced: boolean
  /** Whether there are limits by name, or weights. */
  readonly isByTariff: boolean
  /** How limits count expected tokens. */
  readonly factors: ModelFactors
}

export interface CompiledPolicy extends References {
  readonly resource: AccessPolicy
}

/** A part of a resource that cannot be put in force, or needs attention. */
export interface ResourceProblem {
  /** `<kind>/<namespace>/<name>`. */
  readonly resource: string
  readonly path: FieldPath
  readonly message: string
  /** The message for the same field when it was read, to which this one adds the consequence. */
  readonly because?: string
  /** `<namespace>/<name>` of the model whose entry it takes out of force. */
  readonly entry?: string
  /** `<namespace>/<name>` of the model that it names and that does not exist. */
  readonly missing?: string
}

/** The names that model servers list. */
export interface ServedNames {
  /** The models of the Subscription whose server lists the name. */
  listing(name: string, subscription: CompiledSubscription): readonly Model[]
  /** `listing` for the models of all Subscriptions, at most `max` of them: not for decisions. */
  listingAnywhere(name: string, max: number): readonly Model[]
  /** The names that the model's server lists, or undefined if it has not responded yet. */
  listOf(model: Model): readonly string[] | undefined
  /** Whether everything in the list of a model's server says that the server is llama.cpp's. */
  isLlamaCpp(model: Model): boolean
}

type ByOwner = ReadonlyMap<string, readonly CompiledSubscription[]>

/** Subscriptions by the users and by the groups that own them. */
export interface Owners {
  readonly users: ByOwner
  readonly groups: ByOwner
}

export interface Snapshot {
  /** By `<namespace>/<name>`. */
  readonly models: ReadonlyMap<string, Model>
  /** By the names a body may use: the ModelRef's own and its `modelIds`. Earlier models come first. */
  readonly modelsByName: ReadonlyMap<string, readonly Model[]>
  /** The names that servers list (served-names.ts). */
  readonly servedNames: ServedNames
  /** By bare name; all are in one namespace. */
  readonly subscriptions: ReadonlyMap<string, CompiledSubscription>
  /** Subscriptions by owner. */
  readonly owners: Owners
  /** By bare name; all are in one namespace. */
  readonly policies: ReadonlyMap<string, CompiledPolicy>
  readonly tenant: Tenant | undefined
  /** Undefined if there is no valid mapping, which differs from a mapping without tiers. */
  readonly tiers: readonly Tier[] | undefined
  readonly problems: readonly ResourceProblem[]
  /** The details known of missing models, by key (missing-model.ts). */
  readonly saidOfMissing: ReadonlyMap<string, string>
  /** With which Subscriptions that set no mode were compiled. */
  readonly admissionMode: AdmissionMode
}

/** Of a resource that names these models, some of which are missing (contract, 7.2). */
export function phaseOf(modelKeys: readonly string[], missing: ReadonlySet<string>): Phase {
  if (missing.size === 0) return 'Active'
  return modelKeys.some((key) => !missing.has(key)) ? 'Degraded' : 'Failed'
}

/** `<kind>/<namespace>/<name>`, the identity of a resource. */
export function resourceKey({ kind, metadata }: Resource): string {
  return `${kind}/${metadata.namespace}/${metadata.name}`
}

/**
 * Name of a model's Envoy cluster. If its server has a host name, a change of the connection gets
 * another one: in a cluster that is replaced Envoy would have no address until it is resolved again.
 */
export function clusterName(ref: ModelRef): string {
  const { backendUrl = '', backendHost, server } = ref
  const name = `model/${qualifiedName(ref)}`
  if (!hasHostName(backendUrl)) return name
  const { connectMs, credential, caFile } = server
  const connection = JSON.stringify([backendUrl, backendHost, connectMs, credential, caFile])
  return `${name}/${hash('sha256', connection, 'hex').slice(0, 8)}`
}

/** Whether a URL's host is a name, which may have several addresses. */
export function hasHostName(url: string): boolean {
  const host = URL.parse(url)?.hostname ?? ''
  return !/^[\d.]+$|^\[/.test(host)
}

/** The ModelRef's own name and its ids. */
export function modelNames({ metadata, modelIds }: ModelRef): readonly string[] {
  return [...new Set([metadata.name, ...modelIds])]
}

/**
 * Earlier models first: by `creationTimestamp`, then by key in byte order. Those without a time, as
 * in files, come last.
 */
export function compareByAge(a: Model, b: Model): number {
  const since = a.resource.metadata.createdAt ?? Infinity
  const other = b.resource.metadata.createdAt ?? Infinity
  if (since !== other) return since < other ? -1 : 1
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0
}
