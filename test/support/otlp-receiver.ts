import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import * as grpc from '@grpc/grpc-js'
import { loadSync, type ServiceDefinition } from '@grpc/proto-loader'
import type { Test } from 'tap'

/** A span as it was sent; ids in hexadecimal, times in nanoseconds. */
export interface ReceivedSpan {
  readonly service: string
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  /** Empty for the root span of a trace. */
  readonly parentId: string
  readonly startedAt: bigint
  readonly endedAt: bigint
  readonly attributes: Readonly<Record<string, string | number | boolean>>
  /** 2: an error. */
  readonly status: number
}

export interface ReceivedPoint {
  readonly name: string
  readonly kind: 'gauge' | 'sum' | 'histogram'
  readonly attributes: Readonly<Record<string, string | number | boolean>>
  /** The count of a histogram. */
  readonly value: number
  readonly startedAt: bigint
  readonly endedAt: bigint
}

/** An OTLP collector: protobuf over HTTP and gRPC, and JSON over HTTP. */
export interface OtlpReceiver {
  readonly httpUrl: string
  readonly grpcUrl: string
  readonly spans: ReceivedSpan[]
  /** The points of each metric in its latest export. */
  readonly points: Map<string, readonly ReceivedPoint[]>
  /** The resource attributes, by service. */
  readonly resources: Map<string, Readonly<Record<string, string | number | boolean>>>
  /** All received bodies. */
  readonly raw: Buffer[]
  /** Headers of the HTTP requests. */
  readonly headers: http.IncomingHttpHeaders[]
  /**
   * How it answers: accepts everything, refuses with this status (gRPC: UNAVAILABLE), or never
   * answers.
   */
  mode: 'take' | number | 'hang'
}

interface KeyValue {
  readonly key: string
  readonly value?: Partial<
    Record<'stringValue' | 'boolValue' | 'intValue' | 'doubleValue', string | number | boolean>
  >
}
interface Times {
  readonly startTimeUnixNano?: string
  readonly timeUnixNano?: string
  readonly attributes?: readonly KeyValue[]
}
interface Span extends Times {
  readonly traceId: Buffer | string
  readonly spanId: Buffer | string
  readonly parentSpanId?: Buffer | string
  readonly name: string
  readonly endTimeUnixNano: string
  readonly status?: { readonly code?: number }
}
interface NumberPoint extends Times {
  readonly asInt?: string | number
  readonly asDouble?: number
}
interface BucketsPoint extends Times {
  readonly count?: string
}
interface Metric {
  readonly name: string
  readonly gauge?: { readonly dataPoints?: readonly NumberPoint[] }
  readonly sum?: { readonly dataPoints?: readonly NumberPoint[] }
  readonly histogram?: { readonly dataPoints?: readonly BucketsPoint[] }
}
interface Sent<Part> {
  readonly resource?: { readonly attributes?: readonly KeyValue[] }
  readonly scopeSpans?: readonly { readonly spans?: readonly Part[] }[]
  readonly scopeMetrics?: readonly { readonly metrics?: readonly Part[] }[]
}
interface Traces {
  readonly resourceSpans?: readonly Sent<Span>[]
}
interface Metrics {
  readonly resourceMetrics?: readonly Sent<Metric>[]
}

const forms = loadSync(fileURLToPath(new URL('./otlp.proto', import.meta.url)), { longs: String })[
  'otlp.Forms'
] as ServiceDefinition
const spansForm = forms.Spans as NonNullable<(typeof forms)['Spans']>
const sumsForm = forms.Sums as NonNullable<(typeof forms)['Sums']>
const nothing = Buffer.alloc(0)

/** Starts it on two free ports; it ends with `t`. */
export async function startOtlpReceiver(t: Test): Promise<OtlpReceiver> {
  const takeSpans = (sent: Traces): void => {
    for (const { resource, scopeSpans } of sent.resourceSpans ?? []) {
      const about = valuesOf(resource?.attributes)
      const service = String(about['service.name'])
      receiver.resources.set(service, about)
      for (const { spans } of scopeSpans ?? []) {
        for (const span of spans ?? []) receiver.spans.push(toSpan(service, span))
      }
    }
  }
  const takeMetrics = (sent: Metrics): void => {
    for (const { resource, scopeMetrics } of sent.resourceMetrics ?? []) {
      const about = valuesOf(resource?.attributes)
      receiver.resources.set(String(about['service.name']), about)
      for (const { metrics } of scopeMetrics ?? []) {
        for (const metric of metrics ?? []) receiver.points.set(metric.name, toPoints(metric))
      }
    }
  }

  const server = http.createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const { mode } = receiver
    if (mode === 'hang') return
    if (mode !== 'take') {
      response.writeHead(mode).end()
      return
    }
    const packed = Buffer.concat(parts)
    const body = request.headers['content-encoding'] === 'gzip' ? gunzipSync(packed) : packed
    receiver.raw.push(body)
    receiver.headers.push(request.headers)
    const isJson = request.headers['content-type']?.includes('json') === true
    const isTraces = request.url?.endsWith('/v1/traces') === true
    if (isTraces) takeSpans((isJson ? JSON.parse(`${body}`) : read(spansForm, body)) as Traces)
    else takeMetrics((isJson ? JSON.parse(`${body}`) : read(sumsForm, body)) as Metrics)
    const type = isJson ? 'application/json' : 'application/x-protobuf'
    response.writeHead(200, { 'content-type': type }).end(isJson ? '{}' : nothing)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  const rpc = new grpc.Server()
  const serve = (path: string, take: (bytes: Buffer) => void): void => {
    const method = {
      path,
      requestStream: false,
      responseStream: false,
      requestSerialize: (bytes: Buffer) => bytes,
      requestDeserialize: (bytes: Buffer) => bytes,
      responseSerialize: (bytes: Buffer) => bytes,
      responseDeserialize: (bytes: Buffer) => bytes,
    }
    const handler: grpc.handleUnaryCall<Buffer, Buffer> = ({ request }, answer) => {
      if (receiver.mode === 'hang') return
      if (receiver.mode !== 'take') return answer({ code: grpc.status.UNAVAILABLE })
      receiver.raw.push(request)
      take(request)
      answer(null, nothing)
    }
    rpc.addService({ Export: method }, { Export: handler })
  }
  const prefix = '/opentelemetry.proto.collector'
  serve(`${prefix}.trace.v1.TraceService/Export`, (bytes) =>
    takeSpans(read(spansForm, bytes) as Traces),
  )
  serve(`${prefix}.metrics.v1.MetricsService/Export`, (bytes) =>
    takeMetrics(read(sumsForm, bytes) as Metrics),
  )
  const grpcPort = await new Promise<number>((resolve, reject) => {
    rpc.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(port) : reject(error),
    )
  })

  t.teardown(() => {
    server.close()
    server.closeAllConnections()
    rpc.forceShutdown()
  })
  const receiver: OtlpReceiver = {
    httpUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    grpcUrl: `http://127.0.0.1:${grpcPort}`,
    spans: [],
    points: new Map(),
    resources: new Map(),
    raw: [],
    headers: [],
    mode: 'take',
  }
  return receiver
}

function read(form: typeof spansForm, bytes: Buffer): unknown {
  return form.requestDeserialize(bytes)
}

function toSpan(service: string, span: Span): ReceivedSpan {
  return {
    service,
    name: span.name,
    traceId: toHex(span.traceId),
    spanId: toHex(span.spanId),
    parentId: toHex(span.parentSpanId ?? ''),
    startedAt: BigInt(span.startTimeUnixNano ?? 0),
    endedAt: BigInt(span.endTimeUnixNano),
    attributes: valuesOf(span.attributes),
    status: span.status?.code ?? 0,
  }
}

function toPoints({ name, gauge, sum, histogram }: Metric): readonly ReceivedPoint[] {
  const kind = histogram ? 'histogram' : sum ? 'sum' : 'gauge'
  const points: readonly (NumberPoint & BucketsPoint)[] =
    (histogram ?? sum ?? gauge)?.dataPoints ?? []
  return points.map((point) => ({
    name,
    kind,
    attributes: valuesOf(point.attributes),
    value: Number(point.count ?? point.asInt ?? point.asDouble ?? 0),
    startedAt: BigInt(point.startTimeUnixNano ?? 0),
    endedAt: BigInt(point.timeUnixNano ?? 0),
  }))
}

function valuesOf(pairs: readonly KeyValue[] = []): Record<string, string | number | boolean> {
  return Object.fromEntries(
    pairs.map(({ key, value = {} }) => {
      const { stringValue, boolValue, intValue, doubleValue } = value
      return [key, stringValue ?? boolValue ?? doubleValue ?? Number(intValue)]
    }),
  )
}

/** In JSON ids are in hexadecimal already. */
function toHex(id: Buffer | string): string {
  return typeof id === 'string' ? id : id.toString('hex')
}
