/**
 * `npm run chart`: writes the Helm chart in k8s/chart from the overlay `production`, which stays
 * the single source. Tests check that it is up to date, and Helm's output.
 */

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Document, Scalar, stringify, type YAMLMap } from 'yaml'
import { isObject } from '../src/core/formats/fields.ts'
import { packageRoot } from '../src/runtime/package-root.ts'
import { optional, type Place, values } from './chart-values.ts'
import { type Manifest, render } from './render.ts'
import { renderCrds } from './write-crds.ts'

type JsonObject = Record<string, unknown>

const note = '# Written by `npm run chart` from k8s/overlays/production.\n'
/** A placeholder for a Helm expression. */
const mark = (expression: string): string => `HELM<${expression}>`
const markOfValue = (name: string): string => mark(`.Values.${name} | toJson`)

/** The files of k8s/chart by their paths in it. */
export function renderChart(): ReadonlyMap<string, string> {
  const manifests = structuredClone(render(join(packageRoot, 'k8s', 'overlays', 'production')))
  const defaults = takeDefaults(manifests)
  const files = new Map([
    ['Chart.yaml', write(chart())],
    ['values.yaml', writeValues(defaults)],
    ['values.schema.json', `${JSON.stringify(schemaOf(defaults), null, 2)}\n`],
    ['templates/NOTES.txt', notes],
  ])
  for (const [name, text] of renderCrds()) {
    if (name !== 'kustomization.yaml') files.set(`crds/${name}`, text)
  }
  restartOnChange(manifests)
  for (const manifest of manifests) {
    files.set(`templates/${fileOf(manifest)}`, writeTemplate(manifest))
  }
  return files
}

function chart(): object {
  const { version, description } = JSON.parse(
    readFileSync(join(packageRoot, 'package.json'), 'utf8'),
  ) as { version: string; description: string }
  return {
    apiVersion: 'v2',
    name: 'tollgate',
    description,
    type: 'application',
    version,
    appVersion: version,
  }
}

/** Puts placeholders where values go; returns the replaced values by name. */
function takeDefaults(manifests: readonly Manifest[]): ReadonlyMap<string, Default> {
  const defaults = new Map<string, Default>()
  for (const { name, meaning, places } of values) {
    const [first, ...others] = places.map((place) => replace(manifests, place, markOfValue(name)))
    if (others.some((other) => JSON.stringify(other) !== JSON.stringify(first))) {
      throw new Error(`k8s/overlays/production: not the same everywhere: ${name}`)
    }
    defaults.set(name, { value: first, meaning })
  }
  for (const [name, { meaning }] of Object.entries(optional)) {
    defaults.set(name, { value: true, meaning })
  }
  return defaults
}

/** kustomize names the ConfigMap by its content; in the chart its name is the same for every release. */
function restartOnChange(manifests: readonly Manifest[]): void {
  for (const { spec } of manifests.filter(({ kind }) => kind === 'Deployment')) {
    const { metadata } = (spec as { template: { metadata: { annotations?: object } } }).template
    const digest = mark('.Values.settings | toJson | sha256sum | quote')
    metadata.annotations = { ...metadata.annotations, 'checksum/settings': digest }
  }
}

interface Default {
  readonly value: unknown
  readonly meaning: string
}

/** Returns the replaced value. */
function replace(manifests: readonly Manifest[], [target, ...path]: Place, by: unknown): unknown {
  let inside: unknown = manifests.find(
    ({ kind, metadata }) => `${kind} ${metadata.name}` === target,
  )
  const last = path.at(-1) ?? ''
  for (const step of path.slice(0, -1)) {
    inside = Array.isArray(inside)
      ? inside.find(({ name }) => name === step)
      : (inside as JsonObject | undefined)?.[step]
  }
  if (!isObject(inside) || !(last in inside)) {
    throw new Error(`k8s/overlays/production: nothing at ${target} ${path.join('.')}`)
  }
  const before = inside[last]
  ;(inside as JsonObject)[last] = by
  return before
}

function writeTemplate(manifest: Manifest): string {
  const placed = inNamespaceOfRelease(manifest) as Manifest
  const text = write(placed).replaceAll(/"?HELM<(.*?)>"?/g, '{{ $1 }}')
  const [flag] = Object.entries(optional).find(([, { kind }]) => kind === manifest.kind) ?? []
  return flag === undefined ? text : `{{- if .Values.${flag} }}\n${text}{{- end }}\n`
}

/** Replaces our namespace in every object and subject. */
function inNamespaceOfRelease(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(inNamespaceOfRelease)
  if (!isObject(part)) return part
  return Object.fromEntries(
    Object.entries(part).map(([field, value]) =>
      field === 'namespace' && value === 'tollgate'
        ? [field, mark('.Release.Namespace')]
        : [field, inNamespaceOfRelease(value)],
    ),
  )
}

function write(document: object): string {
  return note + stringify(document, { lineWidth: 0, aliasDuplicateObjects: false })
}

function fileOf({ kind, metadata: { name } }: Manifest): string {
  const words = kind.replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => `-${letter}`).toLowerCase()
  return `${words}-${name}.yaml`
}

function writeValues(defaults: ReadonlyMap<string, Default>): string {
  const document = new Document({})
  for (const [name, { value, meaning }] of defaults) {
    const path = name.split('.')
    document.setIn(path, document.createNode(value, { aliasDuplicateObjects: false }))
    const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1))
    const key = new Scalar(path.at(-1))
    key.commentBefore = ` ${meaning}`
    const pair = (parent as YAMLMap).items.find((each) => `${each.key}` === key.value)
    if (pair) pair.key = key
  }
  return note + document.toString({ lineWidth: 0 })
}

/** So that a misspelt value is refused instead of ignored. */
function schemaOf(defaults: ReadonlyMap<string, Default>): object {
  const properties: JsonObject = {}
  for (const [name, { value }] of defaults) {
    const [first = '', second] = name.split('.')
    if (second === undefined) properties[first] = schemaOfValue(value)
    else {
      const { properties: before } = (properties[first] ?? {}) as { properties?: JsonObject }
      properties[first] = closed({ ...before, [second]: schemaOfValue(value) })
    }
  }
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...closed({ ...properties, global: { type: 'object' } }),
  }
}

function closed(properties: JsonObject): object {
  return { type: 'object', additionalProperties: false, properties }
}

function schemaOfValue(value: unknown): object {
  if (typeof value === 'number') return { type: 'integer', minimum: 1 }
  if (!isObject(value)) return { type: typeof value, ...(value !== true && { minLength: 1 }) }
  const isSettings = Object.values(value).every((inside) => typeof inside === 'string')
  if (!isSettings) return { type: 'object' }
  return {
    type: 'object',
    additionalProperties: { type: 'string' },
    propertyNames: { pattern: '^[A-Z][A-Z0-9_]*$' },
  }
}

const notes = `Tollgate {{ .Chart.AppVersion }} in the namespace {{ .Release.Namespace }}.

The pods start once the Secret {{ .Values.storesSecret }} is there:

  kubectl -n {{ .Release.Namespace }} create secret generic {{ .Values.storesSecret }} \\
    --from-literal=database-url=postgres://… --from-literal=redis-url=redis://…

  kubectl -n {{ .Release.Namespace }} rollout status deployment/tollgate-gateway

An upgrade that changes settings replaces the pods, one after the other. A changed Secret needs no restart.
Definitions are installed once; before an upgrade: kubectl apply -k k8s/crds
`

if (import.meta.main) {
  const folder = join(packageRoot, 'k8s', 'chart')
  rmSync(folder, { recursive: true, force: true })
  for (const [name, text] of renderChart()) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
}
