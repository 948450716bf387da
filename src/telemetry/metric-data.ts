/** Converts figures to OpenTelemetry's data format. */

import { type Attributes, type HrTime, ValueType } from '@opentelemetry/api'
import {
  AggregationTemporality,
  DataPointType,
  type GaugeMetricData,
  type Histogram,
  type HistogramMetricData,
  type MetricData,
  type SumMetricData,
} from '@opentelemetry/sdk-metrics'
import { type CounterName, descriptorOf, type GaugeName, type HistogramName } from './catalogue.ts'

/** A value and its labels. */
export interface Point<Value = number> {
  readonly attributes: Attributes
  readonly value: Value
}

/** `_total` is added to its name in output. */
export function counterData(
  name: CounterName,
  points: readonly Point[],
  valueType = ValueType.INT,
): SumMetricData {
  return {
    descriptor: descriptorOf(name, valueType),
    dataPointType: DataPointType.SUM,
    isMonotonic: true,
    ...cumulative(points),
  }
}

export function gaugeData(name: GaugeName, points: readonly Point[]): GaugeMetricData {
  return {
    descriptor: descriptorOf(name),
    dataPointType: DataPointType.GAUGE,
    ...cumulative(points),
  }
}

export function histogramData(
  name: HistogramName,
  points: readonly Point<Histogram>[],
): HistogramMetricData {
  return {
    descriptor: descriptorOf(name),
    dataPointType: DataPointType.HISTOGRAM,
    ...cumulative(points),
  }
}

/** A histogram without labels. */
export function soleHistogram(
  name: HistogramName,
  figures: { read(): Histogram },
): HistogramMetricData {
  return histogramData(name, [{ attributes: {}, value: figures.read() }])
}

/** Sets the times of new data: the start of the figures and the time of reading. */
export function setMetricTimes(
  data: readonly MetricData[],
  startTime: HrTime,
  endTime: HrTime,
): void {
  for (const { dataPoints } of data) {
    for (const point of dataPoints) Object.assign(point, { startTime, endTime })
  }
}

/** Before they are stamped. Prometheus' text has no times. */
const noTime: HrTime = [0, 0]

function cumulative<Value>(points: readonly Point<Value>[]) {
  return {
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
    dataPoints: points.map((point) => ({ ...point, startTime: noTime, endTime: noTime })),
  }
}
