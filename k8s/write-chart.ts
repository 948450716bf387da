/**
 * `npm run chart`: writes the Helm chart in k8s/chart from the overlay `production`, which stays
 * the single source. Tests check that it is up to date, and Helm's output.
 */

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Document, Scalar, stringify, type YAMLMap } from 'yaml'
import { isObject } from '../src/formats/fields.ts'
import { packageRoot } from '../src/runtime/package-root.ts'
import { settings } from '../src/settings/all-settings.ts'
import { extraFiles, extras } from './chart-extras.ts'
import { inRelease, mark } from './chart-names.ts'
import { placeInPods } from './chart-pods.ts'
import {
  derived,
  gatewayScheme,
  inTemplates,
  optional,
  ownMetadata,
  type Place,
  values,
  withoutTls,
} from './chart-values.ts'
import { type Manifest, render } from './render.ts'
import { renderCrds } from './write-crds.ts'

type JsonObject = Record<string, unknown>

const note = '# Written by `npm run chart` from k8s/overlays/production.\n'
const markOfSettings = mark(
  `mergeOverwrite (dict "GATEWAY_URL" (printf "%s://%s-gateway.%s" (${gatewayScheme}) .Release.Name .Release.Namespace)) .Values.settings | toJson`,
)
/** A number that is an argument of a command. */
const argument = 'envoy.concurrency'

/** The files of k8s/chart by their paths in it. */
export function renderChart(): ReadonlyMap<string, string> {
  const manifests = structuredClone(render(join(packageRoot, 'k8s', 'overlays', 'production')))
  const fixed = fixedIn(manifests)
  const defaults = takeDefaults(manifests)
  const files = new Map([
    ['Chart.yaml', write(chart())],
    ['values.yaml', writeValues(defaults)],
    ['values.schema.json', `${JSON.stringify(schemaOf(defaults, fixed), null, 2)}\n`],
    ['templates/NOTES.txt', notes],
  ])
  for (const [name, text] of renderCrds()) {
    if (name !== 'kustomization.yaml') files.set(`crds/${name}`, text)
  }
  restartOnChange(manifests)
  for (const [place, expression] of derived) replace(manifests, place, () => mark(expression))
  for (const manifest of manifests) {
    const placed = placeInPods(inRelease(manifest, manifests))
    files.set(`templates/${fileOf(manifest)}`, writeTemplate(manifest, placed))
  }
  for (const [name, text] of extraFiles(note)) files.set(name, text)
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
    const by = (value: unknown): string => {
      if (name === 'settings') return markOfSettings
      const plain = name === argument ? Number(value) : value
      // `--reuse-values` lacks the values that an older chart did not have.
      const otherwise = isObject(plain) ? '' : ` | default ${JSON.stringify(plain)}`
      const asText = name === argument ? ' | toString' : ''
      return mark(`.Values.${name}${otherwise}${asText} | toJson`)
    }
    const [first, ...others] = places.map((place) => replace(manifests, place, by))
    if (others.some((other) => JSON.stringify(other) !== JSON.stringify(first))) {
      throw new Error(`k8s/overlays/production: not the same everywhere: ${name}`)
    }
    // The address follows from the release.
    const { GATEWAY_URL: _, ...value } = first as JsonObject
    const plain = name === argument ? Number(first) : first
    defaults.set(name, { value: name === 'settings' ? value : plain, meaning })
  }
  for (const [name, { meaning }] of Object.entries(optional)) {
    defaults.set(name, { value: true, meaning })
  }
  for (const [name, extra] of Object.entries(extras)) defaults.set(name, extra)
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
function replace(
  manifests: readonly Manifest[],
  [target, ...path]: Place,
  by: (value: unknown) => string,
): unknown {
  let inside: unknown = manifests.find(
    ({ kind, metadata }) => `${kind} ${metadata.name}` === target,
  )
  const last = path.at(-1) ?? ''
  for (const step of path.slice(0, -1)) {
    inside = Array.isArray(inside)
      ? inside.find(({ name }) => name === step)
      : (inside as JsonObject | undefined)?.[step]
  }
  const around = Array.isArray(inside) || isObject(inside) ? (inside as JsonObject) : {}
  if (!(last in around)) {
    throw new Error(`k8s/overlays/production: nothing at ${target} ${path.join('.')}`)
  }
  const before = around[last]
  around[last] = by(before)
  return before
}

function writeTemplate(manifest: Manifest, placed: Manifest): string {
  const text = write(placed)
    .replaceAll(/"?HELM<(.*?)>"?/g, '{{ $1 }}')
    .replaceAll(/^( *)WITH (\S+): (.*)$/gm, '{{- with $3 }}\n$1$2: {{ toJson . }}\n{{- end }}')
    .replaceAll(/^( *- )EACH (.*)$/gm, '{{- range $2 }}\n$1{{ toJson . }}\n{{- end }}')
    .replaceAll(
      /^( *)EACH: (.*)$/gm,
      '{{- range $$name, $$value := $2 }}\n$1{{ $$name }}: {{ toJson $$value }}\n{{- end }}',
    )
    .replaceAll(
      /^( *)ELSE (\S+) (\S+):\n((?:\1[ -].*\n)+)/gm,
      '{{- with $3 }}\n$1$2: {{ toJson . }}\n{{- else }}\n$1$2:\n$4{{- end }}\n',
    )
  const flags = Object.entries(optional).flatMap(([flag, { has }]) =>
    has(manifest) ? [`.Values.${flag}`] : [],
  )
  if (flags.length === 0) return text
  const condition = flags.length === 1 ? flags[0] : `and ${flags.join(' ')}`
  return `{{- if ${condition} }}\n${text}{{- end }}\n`
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

/** The settings that containers have of their own: one in the ConfigMap would have no effect. */
function fixedIn(manifests: readonly Manifest[]): ReadonlySet<string> {
  const names = JSON.stringify(manifests).matchAll(/(?<=\{"name":")[A-Z_]+(?=","value)/g)
  return new Set([...names].map(([name]) => name))
}

/** So that a value that is misspelt or has no effect is refused instead of ignored. */
function schemaOf(defaults: ReadonlyMap<string, Default>, fixed: ReadonlySet<string>): object {
  const properties: JsonObject = {}
  for (const [name, { value }] of defaults) {
    const path = name.split('.')
    let inside = properties
    for (const part of path.slice(0, -1)) {
      inside[part] ??= closed({})
      inside = (inside[part] as { properties: JsonObject }).properties
    }
    inside[path.at(-1) as string] = schemaOfValue(name, value, fixed)
  }
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...closed({ ...properties, global: { type: 'object' } }),
  }
}

/** Sections are required, because templates read what is in them: null, or a key without entries, removes one. */
function closed(properties: JsonObject): object {
  const required = Object.entries(properties).flatMap(([name, schema]) =>
    (schema as JsonObject).additionalProperties === false ? [name] : [],
  )
  const more = required.length > 0 && { required }
  return { type: 'object', additionalProperties: false, ...more, properties }
}

function schemaOfValue(name: string, value: unknown, fixed: ReadonlySet<string>): object {
  if (name === 'settings') {
    const names = settingNames(fixed, Object(value))
    return {
      ...closed({
        ...Object.fromEntries(names.map((each) => [each, { type: 'string' }])),
        // The pods' grace period follows from it, so it must be known here.
        DRAIN_SECONDS: {
          type: 'string',
          pattern: '^([1-9][0-9]{0,2}|[12][0-9]{3}|3[0-5][0-9]{2}|3600)$',
        },
      }),
      patternProperties: { '^OTEL_[A-Z0-9_]+$': { type: 'string' } },
    }
  }
  if (name.endsWith('runbookUrl')) return { type: 'string', pattern: '^https?://' }
  if (Array.isArray(value)) return { type: 'array' }
  if (typeof value === 'number') return { type: 'integer', minimum: 1 }
  if (name === 'nodeSelector') return { type: 'object', additionalProperties: { type: 'string' } }
  if (/(labels|annotations)$/i.test(name)) {
    // Of `propertyNames` Helm reports another place.
    const properties = Object.fromEntries(ownMetadata.map((each) => [each, false]))
    return { type: 'object', additionalProperties: { type: 'string' }, properties }
  }
  if (isObject(value)) return { type: 'object' }
  return { type: typeof value, ...(typeof value === 'string' && value !== '' && { minLength: 1 }) }
}

/** Each may also be read from a file; a process does not start with both. */
function settingNames(fixed: ReadonlySet<string>, defaults: object): readonly string[] {
  return Object.values(settings)
    .filter(({ name }) => !fixed.has(name) && !withoutTls.has(name))
    .flatMap(({ name }) => {
      const file = `${name}_FILE`
      if (inTemplates.has(name) || name in defaults) return [name]
      return fixed.has(file) ? [file] : [name, file]
    })
    .sort()
}

const notes = `Tollgate {{ .Chart.AppVersion }} in the namespace {{ .Release.Namespace }}.

The pods start once the Secret {{ .Values.storesSecret }} is there:

  kubectl -n {{ .Release.Namespace }} create secret generic {{ .Values.storesSecret }} \\
    --from-literal=database-url=postgres://… --from-literal=redis-url=redis://…

  kubectl -n {{ .Release.Namespace }} rollout status deployment/{{ .Release.Name }}-gateway

An upgrade that changes settings replaces the pods, one after the other. A changed Secret needs no restart.
Definitions are installed once; before an upgrade: kubectl apply -k k8s/crds
{{- if not .Values.controller.enabled }}

The controller is not part of this release: another one of the cluster must have it, or no status is written.
{{- else }}

Only one release of a cluster may have the controller: others are installed with controller.enabled=false.
{{- end }}
`

if (import.meta.main) {
  const folder = join(packageRoot, 'k8s', 'chart')
  rmSync(folder, { recursive: true, force: true })
  for (const [name, text] of renderChart()) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
}
