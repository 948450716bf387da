import { test } from 'tap'
import { changesOf, inParts, resourcesByName } from '../../src/audit/changes.ts'
import { toLine } from '../../src/audit/event.ts'
import type { Resource } from '../../src/kinds/resources.ts'
import { parseResource } from '../../src/models/rules/reading/parse-resource.ts'
import { modelRef } from '../support/documents.ts'

function model(name: string, backendUrl: string): Resource {
  const parsed = parseResource(modelRef(name, { backendUrl }))
  if (!('resource' in parsed)) throw new Error('no resource')
  return parsed.resource
}

test('added, changed and removed resources are listed by kind and name', (t) => {
  const kept = model('kept', 'http://127.0.0.1:1')
  const before = resourcesByName([
    kept,
    model('same', 'http://a'),
    model('other', 'http://a'),
    model('gone', 'http://a'),
  ])
  const after = resourcesByName([
    kept,
    model('same', 'http://a'),
    model('other', 'http://b'),
    model('new', 'http://a'),
  ])
  t.strictSame(changesOf(before, after), [
    { change: 'changed', resource: 'ModelRef/llm/other' },
    { change: 'added', resource: 'ModelRef/llm/new' },
    { change: 'removed', resource: 'ModelRef/llm/gone' },
  ])
  t.strictSame(changesOf(after, after), [])
  t.end()
})

test('many changes are split into lines of at most 4,096 characters, without loss', (t) => {
  const changes = Array.from({ length: 10_000 }, (_, i) => ({
    change: 'added' as const,
    resource: `ModelRef/llm/model-${i}`,
  }))
  const parts = inParts(changes)
  t.strictSame(parts.flat(), changes)
  for (const part of parts) {
    const line = toLine(
      {
        action: 'resources.apply',
        outcome: 'success',
        actor: { user: 'tollgate', source: 'service' },
        changes: part,
        count: changes.length,
        requestId: 'x'.repeat(36),
      },
      'replica'.repeat(10),
      0,
    )
    if (line.length > 4_096) t.fail(`a line of ${line.length} characters`)
  }
  t.end()
})
