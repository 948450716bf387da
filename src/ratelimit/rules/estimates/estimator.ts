/**
 * Learns from earlier responses what one request of a user to a model under a subscription will use. Output is learned
 * by size class, the power of two of the client's own maximum; input as tokens per byte of the body. Until the first
 * response it assumes an output of about 400 tokens.
 */

import { getOrAdd } from '../../../formats/lists.ts'
import { bytesOfToken } from '../unreported.ts'
import { DecayingSums } from './decaying-sums.ts'
import {
  bucketMiddle,
  type Growth,
  type HistogramScale,
  HistogramShape,
  LogHistogram,
  type Moments,
} from './log-histogram.ts'

/** The parts of a request's size that are known in advance. */
export interface RequestSize {
  /** Length of the body, or undefined if unknown. */
  readonly bytes: number | undefined
  /** The client's maximum of output tokens per answer, or undefined if there is none. */
  readonly maxOutput: number | undefined
  /** Number of answers, to the same prompt or to several; 1 by default. */
  readonly choices?: number | undefined
  /** The lowest maximum of output tokens per answer with which the request is valid; 1 by default. */
  readonly leastOutput?: number | undefined
  /** Why the size is not known: the maximum or the number of answers may differ from the values read. */
  readonly problem?: string | undefined
}

export type Expectation = ReturnType<Estimator['expect']>

/** A response that has ended. */
interface Observed extends RequestSize {
  readonly input: number
  readonly output: number
  /** Whether the answer was cut off, by a ceiling or because the client disconnected. */
  readonly isCut: boolean
  /** Duration of the request in milliseconds, or undefined if unknown. */
  readonly tookMs?: number
  /** Bytes of generated text, if it was a stream; 0 or undefined if none was found. */
  readonly textBytes?: number | undefined
}

export type Estimator = ReturnType<typeof createEstimator>

/** Thirds of an octave from 1 to 165,000 tokens. */
const tokens: HistogramScale = { perOctave: 3, buckets: 52, offset: 0 }
/** Sixteenths of an octave from 1/4 to 4 times the usual tokens per byte. */
const ratios: HistogramScale = { perOctave: 16, buckets: 64, offset: 32 }
const defaultTokensPerByte = 1 / bytesOfToken
/** The prior for an answer: its median in tokens, and its width in octaves. */
const firstMedian = 400
const firstWidth = 1.8
const floorShare = 0.99
/** The prior for the duration of a request, and the weight of each observation. */
const firstMs = 5_000
const tookWeight = 0.05
const firstTook = 1 / tookWeight
/** Tokens in the prior for bytes per token, and its decay with each observation. */
const firstTokens = 50
const textDecay = 0.997
/** The highest size class, for maxima beyond the scale. */
const highestClass = 17
/**
 * Numbers of the parts, except the outputs by class: their numbers are the classes. In earlier versions part 22 had
 * bytes of streams.
 */
const partOf = { outputs: 18, ratio: 19, inputs: 20, took: 21, texts: 23 } as const

const firstOutput = shapeOf(tokens, (middle) =>
  Math.exp(-0.5 * (Math.log2(middle / firstMedian) / firstWidth) ** 2),
)
const firstRatio = shapeOf(ratios, (middle) => (middle >= 0.5 && middle < 2.05 ? 1 : 0))

/** Creates an estimator that has learned nothing yet. It takes 4 KB with one size class, 76 KB with all. */
export function createEstimator() {
  const all = new LogHistogram(tokens, firstOutput)
  const byClass = new Map<number, LogHistogram>()
  const ratio = new LogHistogram(ratios, firstRatio)
  /** For requests of unknown length. */
  const inputs = new LogHistogram(tokens, firstOutput)
  /** Milliseconds, and the number of requests that took them. */
  const took = new DecayingSums(1 - tookWeight, Float64Array.of(firstTook * firstMs, firstTook))
  /** Tokens and bytes. */
  const texts = new DecayingSums(
    textDecay,
    Float64Array.of(firstTokens, firstTokens * bytesOfToken),
  )
  const rates = new Map<number, DecayingSums>([
    [partOf.took, took],
    [partOf.texts, texts],
  ])
  let defaultMs = firstMs
  let bytesPerToken = bytesOfToken

  function inputOf(bytes: number | undefined): Moments {
    const usual = bytes === undefined ? 1 : bytes * defaultTokensPerByte
    const { mean, variance } = (bytes === undefined ? inputs : ratio).shape.whole
    return { mean: usual * mean, variance: usual * usual * variance }
  }

  function outputsOf({ maxOutput }: RequestSize): LogHistogram {
    return byClass.get(classOf(maxOutput)) ?? all
  }

  const ofClass = (size: number): LogHistogram =>
    getOrAdd(byClass, size, () => new LogHistogram(tokens, all))

  function readRates(): void {
    const [ms = 0, requests = 0] = took.read()
    const [textTokens = 0, textBytes = 0] = texts.read()
    defaultMs = ms / requests
    bytesPerToken = Math.min(2 * bytesOfToken, Math.max(bytesOfToken / 2, textBytes / textTokens))
  }

  function histogramOf(part: number): LogHistogram | undefined {
    if (part === partOf.outputs) return all
    if (part === partOf.ratio) return ratio
    if (part === partOf.inputs) return inputs
    return part >= 0 && part <= highestClass ? ofClass(part) : undefined
  }

  return {
    /** Usual duration of a request, in milliseconds. */
    get defaultMs() {
      return defaultMs
    },
    /** Bytes of generated text per output token, from half to twice the usual number. */
    get bytesPerToken() {
      return bytesPerToken
    },
    /** The learned sums, by part numbers that are equal in all processes and versions. */
    *parts(): Iterable<readonly [part: number, DecayingSums]> {
      for (const [size, { weights }] of byClass) yield [size, weights]
      yield [partOf.outputs, all.weights]
      yield [partOf.ratio, ratio.weights]
      yield [partOf.inputs, inputs.weights]
      yield* rates
    },
    /** Sets a part to the shared sums of all processes; ignored if they have another form. */
    replace(part: number, sums: Float64Array): void {
      const histogram = histogramOf(part)
      const known = histogram?.weights ?? rates.get(part)
      if (known?.length !== sums.length) return
      known.replace(sums)
      histogram?.refresh()
      // The prior of each class is the shape of all.
      if (histogram === all) for (const own of byClass.values()) own.refresh()
      readRates()
    },
    /**
     * Tokens that a request is expected to use. `modelMax`: maximum number of output tokens of the model; unknown by
     * default. `isHonoured`: whether an answer ends at the client's own maximum.
     */
    expect(size: RequestSize, modelMax = Number.POSITIVE_INFINITY, isHonoured = true) {
      const { bytes, maxOutput = Number.POSITIVE_INFINITY, choices = 1, leastOutput = 1 } = size
      const most = isHonoured ? Math.min(maxOutput, modelMax) : modelMax
      const input = inputOf(bytes)
      const { shape } = outputsOf(size)
      const output = shape.bounded(most)
      const beyondRoom = Math.min(most, shape.quantile(floorShare))
      // No ceiling can shorten these several answers, so most of them must fit.
      const least = isHonoured || choices === 1 ? leastOutput : Math.max(leastOutput, beyondRoom)
      return {
        input: input.mean,
        inputVariance: input.variance,
        /** The total of all its answers. */
        output: choices * output.mean,
        // Fully correlated, because answers to one prompt resemble each other.
        outputVariance: choices * choices * output.variance,
        /** The output that 99 of 100 such requests need at most. */
        floor: choices * beyondRoom,
        /** The output that the request may get beyond its room while it is alone in a limit: the floor of one answer. */
        beyondRoom,
        /** Whether several answers share `beyondRoom`; it then applies only if their input alone exceeds an unused limit. */
        isSeveral: choices > 1,
        /** Minimum number of output tokens that the request must be allowed; the server refuses one above its own maximum. */
        least: Math.ceil(choices * Math.min(most, least)),
        /** Maximum output, or Infinity if unknown. */
        worst: choices * most,
      }
    },
    /** The expected input alone. `bytes`: length of the body, or undefined if unknown. */
    expectInput: (bytes: number | undefined): number => inputOf(bytes).mean,
    /** The expected output of a request that has produced `seen` tokens and ends at `ceiling`. */
    expectMore(size: RequestSize, seen: number, ceiling: number): Required<Growth> {
      const { bytes, maxOutput = Number.POSITIVE_INFINITY, choices = 1 } = size
      const most = Math.max(seen, Math.min(ceiling, choices * maxOutput))
      const each = outputsOf(size).shape.beyond(seen / choices, most / choices)
      return {
        mean: choices * each.mean,
        variance: choices * choices * each.variance,
        inputVariance: inputOf(bytes).variance,
      }
    },
    learn(observed: Observed): void {
      const { bytes, maxOutput, choices = 1, input, output } = observed
      const { isCut, tookMs, textBytes = 0 } = observed
      if (textBytes > 0 && output > 0) {
        texts.next()
        texts.put(0, output)
        texts.put(1, textBytes)
      }
      const each = output / choices
      if (tookMs !== undefined) {
        took.next()
        took.put(0, tookMs)
        took.put(1, 1)
      }
      readRates()
      ofClass(classOf(maxOutput)).add(each, isCut)
      all.add(each, isCut)
      if (input <= 0) return
      inputs.add(input)
      if (bytes !== undefined && bytes > 0) ratio.add(input / (bytes * defaultTokensPerByte))
    },
  }
}

/** The size class of a maximum; 0 without one. */
function classOf(maxOutput: number | undefined): number {
  if (maxOutput === undefined) return 0
  return Math.min(highestClass, 1 + Math.floor(Math.log2(Math.max(1, maxOutput))))
}

function shapeOf(scale: HistogramScale, density: (middle: number) => number): HistogramShape {
  const weights = Float64Array.from({ length: scale.buckets }, (_, i) =>
    density(bucketMiddle(scale, i)),
  )
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return new HistogramShape(
    weights.map((weight) => weight / total),
    scale,
  )
}
