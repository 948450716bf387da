/** Schemas of limits, of the calendar of their windows, and of the prices and weights of tokens. */

import { parseMoney, parsePrice } from '../formats/money.ts'
import {
  boolean,
  dnsLabel,
  integer,
  integerOrText,
  isWritten,
  list,
  number,
  object,
  oneOf,
  optional,
  partial,
  type Schema,
  text,
  withDefault,
} from '../formats/schema.ts'
import { isKnownZone, parseWindow } from '../formats/time.ts'
import {
  didYouMean,
  hintPer,
  suggestKind,
  suggestLabel,
  suggestNumber,
  suggestWindow,
} from './limit-hints.ts'
import {
  type CalendarWindow,
  type LimitScope,
  limitKinds,
  type NamedLimit,
  type Prices,
  type Weights,
  type WrittenCalendar,
} from './limits.ts'

type Object = Readonly<Record<string, unknown>>

const lengthForm = '1 to 9999 and s, m or h, like 1m, and at most 8784h'
const lengthPattern = '[1-9][0-9]{0,3}[smh]'

const length = text({
  description: 'length of the window, whose start differs between users',
  maxLength: 16,
  pattern: `^${lengthPattern}$`,
  form: lengthForm,
  rules: [
    {
      cel: "duration(self) <= duration('8784h')",
      message: `must be ${lengthForm}`,
      holds: (window: string) => parseWindow(window) !== undefined,
    },
  ],
})

/** The maximum of a unit in a window, for each user and model. */
export const limitSchema = (unit: string) =>
  object({
    limit: integer(1, 1_000_000_000, {
      description: `${unit} per user and window, for this model under this Subscription`,
    }),
    window: length,
  })

const calendarWindows: readonly CalendarWindow[] = ['day', 'week', 'month']
const windowForm = `day, week or month, or ${lengthForm}`

const window = text({
  description:
    'length of the window, whose start differs between counters; or `day`, `week` or `month` of the calendar',
  otherwise: 'none; required unless `of` is `concurrency`',
  maxLength: 16,
  pattern: `^(${lengthPattern}|${calendarWindows.join('|')})$`,
  form: windowForm,
  hint: (raw) => didYouMean(suggestWindow(raw)),
  rules: [
    {
      cel: `self in [${calendarWindows.map((each) => `'${each}'`).join(', ')}] || duration(self) <= duration('8784h')`,
      message: `must be ${windowForm}`,
      holds: (window: string) => isCalendar(window) || parseWindow(window) !== undefined,
    },
  ],
})

/** Whether this is a calendar window. */
export function isCalendar(window: string): boolean {
  return calendarWindows.some((each) => each === window)
}

/** 0.000000001 to 9000000000; each digit behind a point that may be the first one that is no 0. */
const moneyPattern = `^([1-9][0-9]{0,8}(\\.[0-9]{1,9})?|[1-8][0-9]{9}(\\.[0-9]{1,9})?|9000000000(\\.0{1,9})?|0\\.(${Array.from(
  { length: 9 },
  (_, zeros) => `0{${zeros}}[1-9][0-9]{0,${8 - zeros}}`,
).join('|')}))$`

/** None that would be refused, too, such as a number that is too large. */
function meantMoney(raw: string): string | undefined {
  const meant = suggestNumber(raw)
  return meant !== undefined && new RegExp(moneyPattern).test(meant)
    ? didYouMean(`"${meant}"`)
    : undefined
}

const amount = integerOrText(
  integer(1, 1_000_000_000_000_000, {
    description:
      'tokens, requests, or requests in progress; of `cost` a decimal number in quotes, in `BILLING_CURRENCY`',
  }),
  text({
    maxLength: 32,
    pattern: moneyPattern,
    form: 'a decimal number above 0 and at most 9000000000, with at most 9 decimal places',
    hint: meantMoney,
  }),
)

const maxLimits = 20

/**
 * The field `limits` of a resource whose limits may have these `per`, the first by default; `more`: further fields of
 * an entry.
 */
export function namedLimitsSchema<
  const Whose extends LimitScope,
  More extends Readonly<Record<string, Schema>>,
>(per: readonly Whose[], description: string, more: More) {
  const limit = object(
    {
      name: text({
        description: 'its name, used in counters and refusals',
        minLength: 1,
        maxLength: 63,
        pattern: dnsLabel,
        form: 'a DNS label in lower case',
        hint: (raw) => didYouMean(suggestLabel(raw)),
      }),
      per: withDefault(
        oneOf(per, {
          description: 'who shares one counter',
          otherwise: `\`${per[0]}\``,
          hint: (raw) => hintPer(raw, per),
        }),
        per[0],
      ),
      of: withDefault(
        oneOf(limitKinds, {
          description: 'what is counted',
          otherwise: '`tokens`',
          hint: (raw) => didYouMean(suggestKind(raw, limitKinds)),
        }),
        'tokens',
      ),
      limit: amount,
      window: optional(window),
      ...more,
      enforce: withDefault(
        boolean({
          description:
            'whether it refuses requests; with `false` it only counts, is shown and sends notices',
          otherwise: '`true`',
        }),
        true,
      ),
    },
    { closed: true, rules: limitRules },
  )
  return list(limit, {
    description: `${description} ([models-and-quotas.md](models-and-quotas.md#limits-by-name))`,
    item: 'limit',
    maxItems: maxLimits,
    unique: 'name',
  })
}

/** The field for the models to which a limit of a resource applies. */
export function limitedModelsSchema<Reference>(reference: Schema<Reference>, otherwise: string) {
  const models: Schema<readonly Reference[]> = list(reference, {
    description: 'the models whose use it counts together',
    otherwise,
    item: 'model',
    minItems: 1,
    maxItems: 1_000,
  })
  return optional(withDefault(models, undefined))
}

const limitRules = [
  {
    cel: "!(has(self.of) && self.of == 'cost') || type(self.limit) == string",
    message: 'is of cost: its limit must be a decimal number in quotes, like "500" or "0.25"',
    instead: 'limit',
    holds: ({ of, limit }: Object) => of !== 'cost' || typeof limit !== 'number',
  },
  {
    cel: "(has(self.of) && self.of == 'cost') || type(self.limit) == int",
    message:
      'must have a limit that is a whole number, without quotes or separators, unless it is of cost',
    instead: 'limit',
    // An invalid kind is reported instead.
    holds: ({ of, limit }: Object) =>
      of === 'cost' ||
      typeof limit !== 'string' ||
      !limitKinds.some((each) => each === (of ?? 'tokens')),
  },
  {
    cel: "(has(self.of) && self.of == 'concurrency') || has(self.window)",
    message: 'needs a window, like 1h, day or month',
    holds: ({ of, window }: Object) => of === 'concurrency' || isWritten(window),
  },
  {
    cel: "!(has(self.of) && self.of == 'concurrency') || !has(self.window)",
    message:
      'must not have window: a limit of concurrency has no window, it counts requests in progress',
    holds: ({ of, window }: Object) => of !== 'concurrency' || !isWritten(window),
  },
]

/** An entry of `limits` as it is read. */
interface WrittenNamedLimit extends Pick<NamedLimit, 'name' | 'per' | 'of' | 'enforce'> {
  readonly limit: number | string
  readonly window?: string | undefined
  readonly models?: NamedLimit['models']
}

/** A valid entry, with its amount in whole units. */
export function toNamedLimit(raw: WrittenNamedLimit): NamedLimit {
  const { name, per, of, limit, window = '', models, enforce } = raw
  const amount = typeof limit === 'string' ? (parseMoney(limit) ?? 0) : limit
  const windowMs = parseWindow(window) ?? 0
  return { name, per, of, limit: amount, window, windowMs, models, enforce }
}

/** As `Date` counts them. */
const weekdays = [
  'sunday',
  'monday',
  'tuesday',
  'wednesday',
  'thursday',
  'friday',
  'saturday',
] as const

/** `otherwise`: the rule for a missing field. */
export function calendarSchema(otherwise?: string) {
  return object(
    partial({
      timeZone: text({
        description: 'IANA name of the time zone',
        otherwise: otherwise ?? '`UTC`',
        minLength: 1,
        maxLength: 64,
        pattern: '^[A-Z][-+A-Za-z0-9_/]*$',
        form: 'the IANA name of a time zone, like Europe/Zurich',
        rules: [
          {
            message:
              'is not a time zone that is known here; it must be an IANA name like Europe/Zurich',
            holds: isKnownZone,
          },
        ],
      }),
      weekStartsOn: oneOf(weekdays, {
        description: 'the first day of a week',
        otherwise: otherwise ?? '`monday`',
      }),
      monthStartsOn: integer(1, 28, {
        description: 'the day on which a month begins',
        otherwise: otherwise ?? '1',
      }),
    }),
    { description: 'the calendar for windows of a day, a week or a month' },
  )
}

/** The calendar as it is read. */
export function toCalendar({
  timeZone,
  weekStartsOn,
  monthStartsOn,
}: {
  readonly timeZone?: string | undefined
  readonly weekStartsOn?: (typeof weekdays)[number] | undefined
  readonly monthStartsOn?: number | undefined
}): WrittenCalendar {
  return {
    timeZone,
    weekStartsOn: weekStartsOn && weekdays.indexOf(weekStartsOn),
    monthStartsOn,
  }
}

const price = (description: string, otherwise?: string) =>
  text({
    description,
    ...(otherwise && { otherwise }),
    maxLength: 64,
    rules: [
      {
        message:
          'must be a number of at least 0 like 0.000002 or 2e-6, with at most 12 digits before the point and 24 after it',
        holds: (price: string) => parsePrice(price) !== undefined,
      },
    ],
  })

export const pricesSchema = object(
  partial({
    perToken: price(
      'price of a token whose kind has no price; a decimal number in quotes, also with an exponent, in `BILLING_CURRENCY`; `"0"` is a price',
      'none; required unless `perInputToken` and `perOutputToken` are set',
    ),
    perInputToken: price('of a token of input', '`perToken`'),
    perOutputToken: price('of a token of output, reasoning included', '`perToken`'),
    perCachedToken: price('of a token of input that was read from a cache', '`perInputToken`'),
    perCacheWriteToken: price(
      'of a token of input that was written to a cache, for any lifetime: writes that live for an hour are included',
      '`perInputToken`',
    ),
    perRequest: price('of a response, besides its tokens', '`"0"`'),
  }),
  {
    description:
      'prices, recorded with the usage of each response; without valid prices the use of the model has no cost',
    mild: true,
    rules: [
      {
        cel: 'has(self.perToken) || (has(self.perInputToken) && has(self.perOutputToken))',
        message:
          'must have perToken, or both perInputToken and perOutputToken; otherwise some tokens have no price',
        holds: ({ perToken, perInputToken, perOutputToken }: Object) =>
          isWritten(perToken) || (isWritten(perInputToken) && isWritten(perOutputToken)),
      },
    ],
  },
)

/** A valid rate, without exponents. */
export function toPrices(raw: Prices): Prices {
  const read = Object.entries(raw).map(([name, price]) => [name, parsePrice(price ?? '')])
  return Object.fromEntries(read)
}

const weight = (of: string) =>
  number(0, 100, {
    description: `how many tokens ${of} counts as`,
    otherwise: '1',
    rules: [
      {
        // The nearest number with three digits after the point.
        cel: 'double(int(self * 1000.0 + 0.5)) / 1000.0 == self',
        message: 'must have at most 3 decimal places',
        holds: (weight: number) => thousandths(weight) / 1_000 === weight,
      },
    ],
  })

function thousandths(weight: number): number {
  return Math.round(weight * 1_000)
}

export const weightsSchema = object(
  partial({
    cached: weight('a token of input that was read from a cache'),
    cacheWrite: weight('a token of input that was written to a cache'),
    output: weight('a token of output'),
  }),
  {
    description:
      'weights of tokens in limits of `tokens`, including `tokenRateLimits`; the sum of a response is rounded up. Tokens of unknown kind have the weight 1',
  },
)

/** Valid weights, in thousandths. */
export function toWeights(raw: { readonly [Kind in keyof Weights]?: number | undefined }): Weights {
  const { cached = 1, cacheWrite = 1, output = 1 } = raw
  return {
    cached: thousandths(cached),
    cacheWrite: thousandths(cacheWrite),
    output: thousandths(output),
  }
}
