/** docs/resources.md: the fields of our kinds, from their schemas. `npm run crds` writes it. */

import { kindSchemas } from '../k8s/kind-schemas.ts'
import type { Schema } from '../src/formats/schema.ts'

const head = `# Resources

Tollgate reads four kinds of the group \`tollgate.dev/v1alpha1\`, from a folder of YAML files
(\`RESOURCES=file:<folder>\`) or from a cluster. AccessPolicies, Subscriptions and the Tenant live in
the namespace \`models-as-a-service\`. A ModelRef can live in any namespace whose name is not a route of the
gateway (\`v1\`, \`internal\`, \`maas-api\`, \`console\`, \`health\`, \`docs\`). The original's kinds of
\`maas.opendatahub.io/v1alpha1\` (\`MaaSModelRef\`, \`MaaSAuthPolicy\`, \`MaaSSubscription\`, \`Tenant\`,
\`ExternalModel\`) have the same fields.

The definitions for a cluster are in [k8s/crds](../k8s/crds). \`npm run crds\` writes them and this page from one
schema, which is also used to read files. A field of an optional object is required only if the object is present.
`

/** The page as it is committed. */
export function renderResources(): string {
  const parts = Object.entries(kindSchemas).map(([kind, { description, spec }]) => {
    const rows = [...rowsOf(spec, 'spec')].join('\n')
    return `\n## ${kind}\n\n${description}\n\n| field | value | default | meaning |\n|---|---|---|---|\n${rows}\n`
  })
  return `${head}${parts.join('')}`
}

/** A row for each field below this one, in the order of the schema. */
function* rowsOf(schema: Schema, path: string): Generator<string> {
  const { properties = {}, required = [] } = schema
  for (const [name, inside] of Object.entries(properties)) {
    const isRequired = required.includes(name)
    const at = `${path}.${name}${inside.type === 'array' ? '[]' : ''}`
    const left = isRequired ? '**required**' : (inside.otherwise ?? '')
    yield `| \`${at}\` | ${formOf(inside)} | ${left} | ${inCell(inside.description ?? '')} |`
    const below = inside.items ?? inside
    yield* rowsOf(below, at)
  }
}

/** The accepted values of a field, in a few words. */
function formOf(schema: Schema): string {
  const { type, minimum, maximum, maxLength, minItems = 0, maxItems, form } = schema
  if (schema.enum !== undefined) return schema.enum.map((each) => `\`${each}\``).join(' or ')
  if (schema.orText !== undefined) return `${minimum} to ${maximum}, or ${formOf(schema.orText)}`
  if (type === 'integer' || type === 'number') return `${minimum} to ${maximum}`
  if (schema.additionalProperties !== undefined) return 'map of strings'
  if (type === 'array') {
    const many = maxItems === undefined ? `${minItems} or more` : `${minItems} to ${maxItems}`
    return minItems === 0 && maxItems === undefined ? 'list' : `list of ${many}`
  }
  if (type === 'object') return 'object'
  if (type === 'boolean') return '`true` or `false`'
  const length =
    maxLength === undefined || maxLength < 40 ? '' : `, at most ${maxLength} characters`
  return `${inCell(form ?? 'string')}${length}`
}

function inCell(text: string): string {
  return text.replaceAll('|', '\\|')
}
