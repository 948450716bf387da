/** Converts figures counted outside OpenTelemetry's SDK to its data format. */

import { type Attributes, type HrTime, ValueType } from '@opentelemetry/api'
import {
  AggregationTemporality,
  DataPointType,
  type GaugeMetricData,
  type Histogram,
  type HistogramMetricData,
  type MetricData,
  type MetricDescriptor,
  type SumMetricData,
} from '@opentelemetry/sdk-metrics'

/** A value and its labels. */
export interface Point<Value = number> {
  readonly attributes: Attributes
  readonly value: Value
}

/** A counter; `_total` is added to its name in output. */
export function counterData(name: string, help: string, points: readonly Point[]): SumMetricData {
  return {
    descriptor: describe(name, help, '', ValueType.INT),
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
    dataPointType: DataPointType.SUM,
    isMonotonic: true,
    dataPoints: points.map((point) => ({ ...point, startTime: noTime, endTime: noTime })),
  }
}

/** Figures that may fall. */
export function gaugeData(name: string, help: string, points: readonly Point[]): GaugeMetricData {
  return {
    descriptor: describe(name, help, '', ValueType.DOUBLE),
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
    dataPointType: DataPointType.GAUGE,
    dataPoints: points.map((point) => ({ ...point, startTime: noTime, endTime: noTime })),
  }
}

/** Histograms, in seconds by default. */
export function histogramData(
  name: string,
  help: string,
  points: readonly Point<Histogram>[],
  unit = 'seconds',
): HistogramMetricData {
  return {
    descriptor: describe(name, help, unit, ValueType.DOUBLE),
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
    dataPointType: DataPointType.HISTOGRAM,
    dataPoints: points.map((point) => ({ ...point, startTime: noTime, endTime: noTime })),
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

function describe(
  name: string,
  description: string,
  unit: string,
  valueType: ValueType,
): MetricDescriptor {
  return { name, description, unit, valueType }
}
