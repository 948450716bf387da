import { test } from 'tap'
import { problemOfLabels } from '../../src/formats/labels.ts'

test('names and values within the limits are accepted', async (t) => {
  const many = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`l${i}`, 'x']))
  for (const labels of [
    {},
    many,
    { team: 'search', 'example.com/cost-center': 'Ö 4711 / x' },
    { ['a'.repeat(128)]: '🔑'.repeat(1_024) },
    { 'a.b-c_D9': ' ' },
  ]) {
    t.equal(problemOfLabels(labels), undefined)
  }
})

test('everything else is refused with the reason', async (t) => {
  const tooMany = Object.fromEntries(Array.from({ length: 51 }, (_, i) => [`l${i}`, 'x']))
  t.match(problemOfLabels(tooMany), /at most 50 labels/)
  for (const name of ['', ' a', 'a ', '-a', 'a-', '_a', 'a/', '/a', 'a/b/c', 'a_b/c', 'ä', 'a\n']) {
    t.match(problemOfLabels({ [name]: 'x' }), /must have names like/, JSON.stringify(name))
  }
  t.match(problemOfLabels({ ['a'.repeat(129)]: 'x' }), /must have names like/)
  t.match(problemOfLabels({ a: '' }), /"a" must not be empty/)
  t.match(problemOfLabels({ a: 'x'.repeat(1_025) }), /"a" must have at most 1024 characters/)
  for (const value of ['\0', 'a\nb', '\x7f', '\ud800']) {
    t.match(problemOfLabels({ a: value }), /must not hold control/)
  }
})
