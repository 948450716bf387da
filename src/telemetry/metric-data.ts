/** What is counted outside OpenTelemetry's SDK → its data, as if the SDK had collected it. */

import { type Attributes, type HrTime, ValueType } from '@opentelemetry/api'
import {
  AggregationTemporality,
  DataPointType,
  type Histogram,
  type HistogramMetricData,
  type MetricDescriptor,
  type SumMetricData,
} from '@opentelemetry/sdk-metrics'

/** A value and its labels. */
export interface Point {
  readonly attributes: Attributes
  readonly value: number
}

/** A counter; `_total` is added to its name when it is shown. */
export function counterData(name: string, help: string, points: readonly Point[]): SumMetricData {
  return {
    descriptor: describe(name, help, '', ValueType.INT),
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
    dataPointType: DataPointType.SUM,
    isMonotonic: true,
    dataPoints: points.map((point) => ({ ...point, startTime: noTime, endTime: noTime })),
  }
}

/** A histogram of seconds. */
export function secondsData(name: string, help: string, value: Histogram): HistogramMetricData {
  return {
    descriptor: describe(name, help, 'seconds', ValueType.DOUBLE),
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
    dataPointType: DataPointType.HISTOGRAM,
    dataPoints: [{ attributes: {}, value, startTime: noTime, endTime: noTime }],
  }
}

/** Prometheus' text has no times: whoever scrapes knows when. */
const noTime: HrTime = [0, 0]

function describe(
  name: string,
  description: string,
  unit: string,
  valueType: ValueType,
): MetricDescriptor {
  return { name, description, unit, valueType }
}
