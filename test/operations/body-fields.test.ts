import { test } from 'tap'
import { choosingFields, internalFields, stateFields } from '../../src/kinds/body-fields.ts'
import type { ModelRef } from '../../src/kinds/resources.ts'
import { foundFields, openedFields, refuseFields } from '../../src/operations/body-fields.ts'
import { modelRef, resourceOf } from '../support/documents.ts'

const model = (spec: object) => resourceOf(modelRef('small', spec)) as ModelRef

test('only the names of fields are read as such', async (t) => {
  t.strictSame(foundFields('fields file_id,audio.id'), ['file_id', 'audio.id'])
  t.equal(foundFields('it is not a JSON object'), undefined)
  t.equal(foundFields(undefined), undefined)
})

test('what is stored is open where the state is shared', async (t) => {
  for (const field of [...stateFields, 'one_of_a_newer_script']) {
    for (const spec of [{}, { state: 'closed' }]) {
      t.match(refuseFields([field], model(spec), false), `${field} names what is stored`)
    }
    t.equal(refuseFields([field], model({ state: 'shared' }), false), undefined)
  }
})

test('other models are chosen where nothing is compared or replaced, or by opened fields', async (t) => {
  for (const field of choosingFields) {
    for (const names of [{ modelIds: ['a'] }, { upstreamModel: 'a' }]) {
      t.match(refuseFields([field], model(names), false), `${field} may choose another model`)
      const open = model({ ...names, modelFields: [field] })
      t.equal(refuseFields([field], open, false), undefined)
    }
    t.equal(refuseFields([field], model({}), false), undefined)
  }
})

test('what servers tell each other is closed whatever the model is called', async (t) => {
  for (const field of internalFields) {
    for (const spec of [{}, { modelIds: ['a'] }, { state: 'shared', modelFields: ['plugins'] }]) {
      t.match(refuseFields([field], model(spec), false), `${field} is for the servers of a model`)
    }
    t.equal(refuseFields([field], model({ modelFields: [field] }), false), undefined)
  }
})

test('what hides the usage is closed where responses are counted', async (t) => {
  for (const field of ['background', 'deferred', 'additional_drop_params']) {
    t.match(refuseFields([field], model({ state: 'shared' }), true), `${field} m`)
    t.equal(refuseFields([field], model({}), false), undefined)
  }
})

test('the script is told only what is open', async (t) => {
  t.equal(openedFields(model({ modelIds: ['a'] })), undefined)
  const spec = { state: 'shared', modelFields: ['fallbacks', 'tools[].model'] }
  t.equal(openedFields(model(spec)), 'state fallbacks tools[].model')
})
