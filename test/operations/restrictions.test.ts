import { test } from 'tap'
import { internalFields, modelChoosingFields, storedFields } from '../../src/kinds/body-fields.ts'
import type { ModelRef } from '../../src/kinds/resources.ts'
import {
  formatOpenFields,
  parseFoundFields,
  refuseFields,
  refuseStoredObjects,
  unreadFields,
} from '../../src/operations/restrictions.ts'
import { modelRef, resourceOf } from '../support/documents.ts'

const model = (spec: object) => resourceOf(modelRef('small', spec)) as ModelRef

test('only the names of fields are read as such', async (t) => {
  t.strictSame(parseFoundFields('fields file_id,audio.id'), ['file_id', 'audio.id'])
  t.equal(parseFoundFields('it is not a JSON object'), undefined)
  t.equal(parseFoundFields(undefined), undefined)
})

test('what is stored is open where the state is shared', async (t) => {
  for (const field of [...storedFields, 'one_of_a_newer_script']) {
    for (const spec of [{}, { state: 'closed' }]) {
      t.match(refuseFields([field], model(spec), false), `${field} names what is stored`)
    }
    t.equal(refuseFields([field], model({ state: 'shared' }), false), undefined)
  }
})

test('other models are chosen where nothing is compared or replaced, or by opened fields', async (t) => {
  for (const field of modelChoosingFields) {
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
  t.equal(formatOpenFields(model({ modelIds: ['a'] })), undefined)
  const spec = { state: 'shared', modelFields: ['fallbacks', 'tools[].model'] }
  t.equal(formatOpenFields(model(spec)), 'state fallbacks tools[].model')
})

const closed = (method: string, operation: string, allPaths = false) =>
  refuseStoredObjects(operation, method, allPaths)?.code === 'path_closed'

test('what lists, reads and ends stored objects is closed, what makes them is not', async (t) => {
  for (const operation of ['/v1/responses', '/v1/chat/completions', '/v1/files', '/v1/batches']) {
    for (const allPaths of [false, true]) {
      t.notOk(closed('POST', operation, allPaths), operation)
      for (const method of ['GET', 'HEAD', 'DELETE', 'PUT', 'post']) {
        t.ok(closed(method, operation, allPaths), `${method} ${operation}`)
      }
      for (const below of ['/x', '/x/cancel', '/x/content', '/']) {
        t.ok(closed('POST', operation + below, allPaths), operation + below)
      }
    }
  }
  for (const operation of ['/v1/models', '/v1/embeddings', '/v1/filesystem', '/v1/x/files']) {
    t.notOk(closed('GET', operation), operation)
  }
})

test('with all paths, what may be stored is closed', async (t) => {
  for (const [method, operation] of [
    ['GET', '/v1/x/Files.json'],
    ['POST', '/v1/vector_store/list'],
    ['GET', '/v1/%66iles%3Fx'],
    ['GET', '/v1/%252e%252e/props'],
    ['GET', '/slots'],
    ['GET', '/v1/completions/x'],
    ['POST', '/v1/messages/batches'],
    ['GET', '/v1/x/messages'],
    ['POST', '/v1/unload_lora_adapter'],
    ['POST', '/v1/models/load'],
    ['POST', '/v1/cancel'],
    ['PATCH', '/v1/anything'],
    ['DELETE', '/v1/models/x'],
  ] as const) {
    t.ok(closed(method, operation, true), `${method} ${operation}`)
    t.notOk(closed(method, operation), `${method} ${operation} is not judged without`)
  }
  for (const [method, operation] of [
    ['GET', '/v1/model/info'],
    ['GET', '/v1/models/files'],
    ['POST', '/v1/messages/count_tokens'],
    ['POST', '/v1/fim/completions'],
    ['POST', '/v1/loader'],
    ['POST', '/v1/classify'],
    ['OPTIONS', '/v1/anything'],
    ['PUT', '/v1/anything'],
  ] as const) {
    t.notOk(closed(method, operation, true), `${method} ${operation}`)
  }
})

test('a batch names the file that it reads', async (t) => {
  t.strictSame(unreadFields('/v1/batches', 'POST'), ['input_file_id'])
  t.strictSame(unreadFields('/v1/batches', 'GET'), [])
  t.strictSame(unreadFields('/v1/files', 'POST'), [])
})
