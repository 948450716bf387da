/**
 * Spans for sampled requests, as the client decided; nothing is created for others. Work for a
 * request finds its span, now or later.
 */

import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type Attributes,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { isTraceSampled, parseTraceParent } from '../formats/headers.ts'

export interface Tracing {
  /** false: every function is returned unchanged, and no span is created. */
  readonly isOn: boolean
  /** Calls `act` within a child span of `traceparent`, if that is sampled. The span ends with its result or promise. */
  server<Result>(name: string, traceparent: string | undefined, act: () => Result): Result
  /** Opens such a span, which the caller must end; undefined if it is not sampled. */
  open(name: string, traceparent: string | undefined): OpenSpan | undefined
  /** Wraps a function: if a sampled call has to wait for it, the wait is a child span with this name. */
  waiting<Args extends readonly unknown[], Result>(
    name: string,
    act: (...args: Args) => Result,
  ): (...args: Args) => Result
  /** Whether this runs within a span. */
  isActive(): boolean
  /** Adds attributes to the current span, if any. */
  annotate(attributes: Attributes): void
}

interface OpenSpan {
  /** Runs within the span, as does everything it starts. */
  run<Result>(act: () => Result): Result
  end(attributes: Attributes, failed: boolean): void
}

export function createTracing(tracer: Tracer): Tracing {
  const within = new AsyncLocalStorage<Span>()

  function begin(name: string, traceparent: string | undefined): Span | undefined {
    if (!isTraceSampled(traceparent)) return undefined
    const parent = parseTraceParent(traceparent)
    if (parent === undefined) return undefined
    const { traceId, parentId: spanId } = parent
    const context = trace.setSpanContext(ROOT_CONTEXT, {
      traceId,
      spanId,
      traceFlags: 1,
      isRemote: true,
    })
    return tracer.startSpan(name, { kind: SpanKind.SERVER }, context)
  }

  return {
    isOn: true,
    server(name, traceparent, act) {
      const span = begin(name, traceparent)
      return span === undefined ? act() : within.run(span, () => ending(span, act))
    },
    open(name, traceparent) {
      const span = begin(name, traceparent)
      if (span === undefined) return undefined
      return {
        run: (act) => within.run(span, act),
        end(attributes, failed) {
          span.setAttributes(attributes)
          if (failed) span.setStatus({ code: SpanStatusCode.ERROR })
          span.end()
        },
      }
    },
    waiting(name, act) {
      return (...args) => {
        const result = act(...args)
        if (!(result instanceof Promise)) return result
        const parent = within.getStore()
        if (parent === undefined) return result
        const context = trace.setSpan(ROOT_CONTEXT, parent)
        const span = tracer.startSpan(name, { kind: SpanKind.CLIENT }, context)
        return ending(span, () => result)
      }
    },
    isActive: () => within.getStore() !== undefined,
    annotate(attributes) {
      within.getStore()?.setAttributes(attributes)
    },
  }
}

/** No tracing: every function is unchanged. */
export const noTracing: Tracing = {
  isOn: false,
  server: (_name, _traceparent, act) => act(),
  open: () => undefined,
  waiting: (_name, act) => act,
  isActive: () => false,
  annotate() {},
}

/** Wraps functions: if a sampled call has to wait for one, the wait is a child span with this name. */
export function withWaits<Functions extends object>(
  tracing: Tracing,
  name: string,
  functions: Functions,
): Functions {
  if (!tracing.isOn) return functions
  const traced = Object.entries(functions).map(([key, act]) => [key, tracing.waiting(name, act)])
  return Object.fromEntries(traced)
}

/** Ends the span with the error, result or promise. Error messages are omitted, because they may quote data. */
function ending<Result>(span: Span, act: () => Result): Result {
  const end = (failed: boolean): void => {
    if (failed) span.setStatus({ code: SpanStatusCode.ERROR })
    span.end()
  }
  try {
    const result = act()
    if (result instanceof Promise) {
      result.then(
        () => end(false),
        () => end(true),
      )
    } else {
      end(false)
    }
    return result
  } catch (error) {
    end(true)
    throw error
  }
}
