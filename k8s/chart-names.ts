/** Names in the chart: those of the overlay, with the release in them, so that there can be several. */

import { isObject } from '../src/formats/fields.ts'
import type { Manifest } from './render.ts'

/** A placeholder for a Helm expression. */
export const mark = (expression: string): string => `HELM<${expression}>`

const release = mark('.Release.Name')
const label = 'app.kubernetes.io/name'

/**
 * The manifest in the namespace of the release, with its name in the names of objects and in the label by
 * which pods are selected. A release called `tollgate` has the names of the overlay.
 */
export function inRelease(manifest: Manifest, all: readonly Manifest[]): Manifest {
  const names = new Set(all.map(({ metadata }) => metadata.name))
  const replaced = (part: unknown, field?: string): unknown => {
    if (Array.isArray(part)) return part.map((each) => replaced(each))
    if (typeof part === 'string') return textOf(part, field, names)
    if (!isObject(part)) return part
    return Object.fromEntries(
      Object.entries(part).map(([name, value]) => [name, replaced(value, name)]),
    )
  }
  return replaced(manifest) as Manifest
}

function textOf(text: string, field: string | undefined, names: ReadonlySet<string>): string {
  if (field === 'namespace' && text === 'tollgate') return mark('.Release.Namespace')
  if (field === label && text === 'tollgate') return release
  if ((field === 'name' || field === 'serviceAccountName') && names.has(text)) return nameOf(text)
  // The Lease in a Role, and in the setting that names it.
  if (text === 'tollgate-controller') return nameOf(text)
  return text.replace('//tollgate-internal:', `//${release}-internal:`)
}

function nameOf(name: string): string {
  if (name.startsWith('tollgate-')) return name.replace('tollgate', release)
  const other = `(printf "%s-${name.replace(/^maas-/, '')}" .Release.Name)`
  return mark(`ternary "${name}" ${other} (eq .Release.Name "tollgate")`)
}
