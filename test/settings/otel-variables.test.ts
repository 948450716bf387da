import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { readOtel } from '../../src/settings/otel-variables.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

function read(env: Record<string, string>) {
  const problems: string[] = []
  return { otel: readOtel(env, problems), problems }
}

const collector = 'http://collector:4318'

test('nothing is exported without an endpoint or an exporter', async (t) => {
  t.equal(read({ OTEL_SERVICE_NAME: 'a' }).otel, undefined)
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: collector }
  t.match(read(endpoint).otel, { traces: 'http/protobuf', metrics: 'http/protobuf' })
  t.equal(read(endpoint).otel?.gateway, undefined, 'it may be meant for the service alone')
  t.equal(read({ ...endpoint, OTEL_SDK_DISABLED: 'true' }).otel, undefined)
  const prometheus = { ...endpoint, OTEL_METRICS_EXPORTER: 'prometheus' }
  t.match(read(prometheus).otel, { traces: 'http/protobuf', metrics: undefined })
})

test('the gateway traces as the variables say', async (t) => {
  const { otel } = read({
    OTEL_TRACES_EXPORTER: 'otlp',
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector}/`,
    OTEL_EXPORTER_OTLP_HEADERS: 'a=b',
    OTEL_TRACES_SAMPLER_ARG: '0.5',
    OTEL_RESOURCE_ATTRIBUTES: 'team=x, service.name=models',
  })
  t.match(otel?.gateway, {
    ...{ endpoint: `${collector}/v1/traces`, protocol: 'http/protobuf', headers: 'a=b' },
    ...{ timeoutMs: 10_000, share: 0.5, serviceName: 'models-gateway' },
  })
  const sampled = (OTEL_TRACES_SAMPLER: string) =>
    read({
      OTEL_TRACES_EXPORTER: 'otlp',
      OTEL_TRACES_SAMPLER_ARG: '0.5',
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc',
      OTEL_TRACES_SAMPLER,
    }).otel?.gateway
  t.match(sampled('always_on'), { share: 1, endpoint: 'http://localhost:4317', protocol: 'grpc' })
  t.equal(sampled('parentbased_always_off')?.share, 0)
  t.equal(sampled('traceidratio')?.share, 0.5)
})

test('a value that cannot be followed is a problem', async (t) => {
  const wrong = {
    OTEL_SDK_DISABLED: 'yes',
    OTEL_TRACES_EXPORTER: 'zipkin',
    OTEL_METRICS_EXPORTER: 'console',
    OTEL_LOGS_EXPORTER: 'otlp',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318',
    OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'http/json',
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'secret',
    OTEL_EXPORTER_OTLP_TIMEOUT: '10s',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'zstd',
    OTEL_TRACES_SAMPLER: 'jaeger_remote',
    OTEL_TRACES_SAMPLER_ARG: '2',
    OTEL_METRIC_EXPORT_INTERVAL: '0',
  }
  const { problems } = read(wrong)
  t.strictSame(
    problems.map((problem) => problem.slice(0, problem.indexOf(':'))).sort(),
    Object.keys(wrong).sort(),
  )
  t.notMatch(problems.join(), 'secret', 'headers are credentials')
})

test('what is not read here goes on to the SDK, and what is in files', async (t) => {
  const file = join(temporaryFolder(t), 'headers')
  writeFileSync(file, 'authorization=Bearer%20x\n')
  const { otel, problems } = read({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector,
    OTEL_EXPORTER_OTLP_HEADERS_FILE: file,
    OTEL_BSP_SCHEDULE_DELAY: '50',
    OTEL_SERVICE_NAME: '',
    LOG_LEVEL: 'warn',
  })
  t.strictSame(problems, [])
  t.strictSame(otel?.env, {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector,
    OTEL_BSP_SCHEDULE_DELAY: '50',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20x',
  })
})
