import { test } from 'tap'
import { renderOpenapi } from '../../../docs/write-openapi.ts'
import { nameSchemas } from '../../../src/admin/http/named-schemas.ts'

type Json = Record<string, unknown>

test('a schema with a title is defined once', async (t) => {
  const leaf = { title: 'Leaf', type: 'string', description: 'One.' }
  const branch = { title: 'Branch', type: ['object', 'null'], properties: { leaf } }
  const document: { paths: unknown; components: Json } = {
    components: { securitySchemes: {} },
    paths: {
      a: { schema: branch },
      b: { schema: { type: 'object', properties: { branch, title: { type: 'string' } } } },
      c: { schema: { ...leaf, description: 'Another.' } },
      d: { schema: { 'x-type': ['string', 'null'], description: 'Any.' } },
    },
  }
  nameSchemas(document)
  const $ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
  t.strictSame(document, {
    components: {
      securitySchemes: {},
      schemas: {
        Branch: { title: 'Branch', type: 'object', properties: { leaf: $ref('Leaf') } },
        Leaf: { title: 'Leaf', type: 'string' },
      },
    },
    paths: {
      a: { schema: $ref('Branch') },
      b: {
        schema: {
          type: 'object',
          properties: {
            branch: { anyOf: [$ref('Branch'), { type: 'null' }] },
            title: { type: 'string' },
          },
        },
      },
      c: { schema: $ref('Leaf') },
      d: { schema: { description: 'Any.', type: ['string', 'null'] } },
    },
  })
  const two = { a: leaf, b: { ...leaf, type: 'integer' } }
  t.throws(() => nameSchemas({ paths: two }), { message: /Leaf/ })
})

test('every object of the document has a name', async (t) => {
  const { paths, components } = JSON.parse(await renderOpenapi())
  const unnamed: string[] = []
  const look = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null) return
    const { type, properties } = value as Json
    if ([type].flat().includes('object') && properties !== undefined) unnamed.push(path)
    for (const [key, each] of Object.entries(value)) look(each, `${path}/${key}`)
  }
  look(paths, '')
  for (const [name, schema] of Object.entries(components.schemas as Record<string, Json>)) {
    // The schema itself has a name; objects inside it may lack one.
    for (const [key, each] of Object.entries(schema)) look(each, `/${name}/${key}`)
  }
  t.strictSame(
    unnamed,
    [],
    'give each of these a title, from which generated clients name its type',
  )
  t.match(components.schemas.NewApiKey.properties.expiresIn, {
    type: ['string', 'number', 'null'],
  })
})
