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

/** A value and its labels. */
export interface Point<Value = number> {
  readonly attributes: Attributes
  readonly value: Value
}

/** A counter of whole numbers; `_total` is added to its name in output. */
export function counterData(
  name: string,
  description: string,
  points: readonly Point[],
  unit = '',
  valueType = ValueType.INT,
): SumMetricData {
  return {
    descriptor: { name, description, unit, valueType },
    dataPointType: DataPointType.SUM,
    isMonotonic: true,
    ...cumulative(points),
  }
}

/** Figures that may fall. */
export function gaugeData(
  name: string,
  description: string,
  points: readonly Point[],
  unit = '',
): GaugeMetricData {
  return {
    descriptor: { name, description, unit, valueType: ValueType.DOUBLE },
    dataPointType: DataPointType.GAUGE,
    ...cumulative(points),
  }
}

/** Histograms, in seconds by default. */
export function histogramData(
  name: string,
  description: string,
  points: readonly Point<Histogram>[],
  unit = 'seconds',
): HistogramMetricData {
  return {
    descriptor: { name, description, unit, valueType: ValueType.DOUBLE },
    dataPointType: DataPointType.HISTOGRAM,
    ...cumulative(points),
  }
}

/** A histogram without labels. */
export function soleHistogram(
  name: string,
  help: string,
  figures: { read(): Histogram },
  unit?: string,
): HistogramMetricData {
  return histogramData(name, help, [{ attributes: {}, value: figures.read() }], unit)
}

/** Sets the times of new data: the start of the figures and the time of reading. */
export function stamp(data: readonly MetricData[], startTime: HrTime, endTime: HrTime): void {
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
