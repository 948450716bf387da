/**
 * Renders the manifests of a folder of k8s/ without kustomize, for tests and for the chart:
 * supports the features that these folders use, and fails for anything else. A test compares it
 * with kustomize if that is installed.
 */

import { readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { isObject } from '../src/formats/fields.ts'

type JsonObject = Record<string, unknown>

export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly [field: string]: unknown
}

interface Kustomization {
  readonly resources?: readonly string[]
  readonly components?: readonly string[]
  readonly patches?: readonly { readonly path: string }[]
  readonly configMapGenerator?: readonly {
    readonly name: string
    readonly namespace: string
    readonly options: { readonly labels: Readonly<Record<string, string>> }
    readonly literals: readonly string[]
  }[]
}

const known = ['apiVersion', 'kind', 'resources', 'components', 'patches', 'configMapGenerator']

/**
 * All objects of a kustomization, given the path of its folder; a component's are added to others.
 * Generated ConfigMaps have no digest in their names.
 */
export function render(folder: string, others: readonly Manifest[] = []): readonly Manifest[] {
  const kustomization = readKustomization(folder)
  const { resources = [], components = [], patches = [], configMapGenerator = [] } = kustomization
  const own = resources.flatMap((name) => {
    const path = join(folder, name)
    return statSync(path).isDirectory() ? render(path) : readManifests(path)
  })
  const generated = configMapGenerator.map(({ name, namespace, options, literals }) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace, ...options },
    data: Object.fromEntries(
      literals.map((literal) => /^(.*?)=(.*)$/.exec(literal)?.slice(1) ?? []),
    ),
  }))
  let manifests: readonly Manifest[] = [...others, ...own, ...generated]
  for (const name of components) manifests = render(join(folder, name), manifests)
  for (const patch of patches.flatMap(({ path }) => readManifests(join(folder, path)))) {
    const target = manifests.find((each) => nameOf(each) === nameOf(patch))
    if (target === undefined) throw new Error(`${folder}: nothing to patch: ${nameOf(patch)}`)
    const patched = patch.$patch === 'delete' ? [] : [merge(target, patch) as Manifest]
    manifests = manifests.flatMap((each) => (each === target ? patched : each))
  }
  return manifests
}

/** Identifies an object. */
export function nameOf({ kind, metadata: { name, namespace = '' } }: Manifest): string {
  return `${kind} ${namespace}/${name}`
}

function readKustomization(folder: string): Kustomization {
  const path = join(folder, 'kustomization.yaml')
  const kustomization: unknown = parse(readFileSync(path, 'utf8'))
  if (!isObject(kustomization)) throw new Error(`${path} is no kustomization`)
  const unknown = Object.keys(kustomization).filter((field) => !known.includes(field))
  if (unknown.length > 0) throw new Error(`${path} has ${unknown.join()}, which is not read here`)
  return kustomization
}

/** The documents of a file. */
export function readManifests(path: string): readonly Manifest[] {
  return parseAllDocuments(readFileSync(path, 'utf8')).map((document) => {
    const manifest: unknown = document.toJS()
    if (document.errors[0]) throw new Error(`${path}: ${document.errors[0].message}`)
    if (!isObject(manifest) || !isObject(manifest.metadata)) {
      throw new Error(`${path}: a document is no manifest (in ${dirname(path)})`)
    }
    return manifest as unknown as Manifest
  })
}

/**
 * A strategic merge: objects by field, null removes, lists of elements with a name or a mountPath
 * by that, new elements first, as in kustomize; other lists are replaced.
 */
function merge(target: unknown, patch: unknown): unknown {
  if (Array.isArray(target) && Array.isArray(patch)) return mergeLists(target, patch)
  if (!isObject(target) || !isObject(patch)) return patch
  const merged: JsonObject = { ...target }
  for (const [field, value] of Object.entries(patch)) {
    if (value === null) delete merged[field]
    else merged[field] = merge(target[field], value)
  }
  return merged
}

function mergeLists(target: readonly unknown[], patch: readonly unknown[]): readonly unknown[] {
  const key = ['mountPath', 'name'].find((name) =>
    [...target, ...patch].every((item) => isObject(item) && typeof item[name] === 'string'),
  )
  if (key === undefined) return patch
  const keyOf = (item: unknown): unknown => (item as JsonObject)[key]
  const found = (item: unknown, list: readonly unknown[]): unknown =>
    list.find((each) => keyOf(each) === keyOf(item))
  return [
    ...patch.filter((item) => found(item, target) === undefined),
    ...target.map((item) => merge(item, found(item, patch) ?? item)),
  ]
}
