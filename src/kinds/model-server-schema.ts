/** Fields of a ModelRef for the connection to its server. */

import {
  boolean,
  dnsName,
  integer,
  isWritten,
  object,
  optional,
  partial,
  type Schema,
  text,
  withDefault,
} from '../formats/schema.ts'
import { parseDuration } from '../formats/time.ts'

/** A file name within a folder, never a path out of it. */
const file: Partial<Schema> = {
  minLength: 1,
  maxLength: 253,
  pattern: '^[A-Za-z0-9_.-]+$',
  form: 'a file name of letters, digits, ".", "-" and "_"',
  refuses: [
    {
      pattern: '^\\.{1,2}$',
      message: 'must be a file name of letters, digits, ".", "-" and "_"',
    },
  ],
}

/** Headers that a resource must not set: of the connection, of the body, of metadata services, and our own. */
const ownHeaders =
  '^(host|connection|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade|expect|content-.*|accept-encoding|x-request-id|metadata|metadata-flavor|x-(aws-ec2-metadata|tollgate|envoy|forwarded|maas)-.*)$'

const secretName = text({
  description: 'name of the Secret',
  minLength: 1,
  maxLength: 253,
  pattern: dnsName,
  form: 'a DNS name in lower case',
})

/** Exactly one of the two. */
const credentialRule = {
  cel: 'has(self.file) != has(self.secretRef)',
  message: 'needs either file or secretRef',
  holds: ({ file, secretRef }: Readonly<Record<string, unknown>>) =>
    isWritten(file) !== isWritten(secretRef),
}

/** The credential of the gateway at the server. */
export const credentialSchema = object(
  partial({
    file: text({
      ...file,
      description: 'name of the file with the credential: `SECRETS_DIR`/namespace/file',
    }),
    secretRef: object(
      {
        name: secretName,
        key: text({
          description: 'entry of the `data` of the Secret that has the credential',
          minLength: 1,
          maxLength: 253,
          pattern: '^[-._a-zA-Z0-9]+$',
          form: 'a key of letters, digits, ".", "-" and "_"',
        }),
      },
      { description: 'a Secret in the namespace of the ModelRef (`RESOURCES=kubernetes` only)' },
    ),
    header: text({
      description: 'header for the credential',
      otherwise: '`authorization`',
      minLength: 1,
      maxLength: 128,
      pattern: '^[A-Za-z0-9-]+$',
      form: 'the name of a header: letters, digits and "-"',
      refuses: [{ pattern: ownHeaders, ignoreCase: true, message: 'is a reserved header' }],
    }),
    prefix: text({
      description: 'prefix of the credential in the header',
      otherwise: '`Bearer ` in `authorization`, else empty',
      maxLength: 64,
      pattern: '^([!-~][ -~]*)?$',
      form: 'of visible ASCII',
    }),
  }),
  { description: 'credential that the gateway sends to the server', rules: [credentialRule] },
)

/** A Go duration without signs, microseconds, nanoseconds or a lone point, which CEL parses as we do. */
function duration(description: string, max: string, otherwise: string) {
  const message = `must be a duration like 500ms, 30s or 10m, at most ${max}`
  return text({
    description,
    otherwise,
    maxLength: 32,
    pattern: durationPattern,
    form: message.replace('must be ', ''),
    rules: [
      {
        cel: `duration(self) >= duration('1ms') && duration(self) <= duration('${max}')`,
        message,
        holds: (raw: string) => {
          const milliseconds = durationOf(raw)
          return milliseconds >= 1 && milliseconds <= durationOf(max)
        },
      },
    ],
  })
}

/** Whole milliseconds of a duration, because Envoy ignores or refuses fractions; 0 for other text. */
export function millisecondsOf(raw: string): number {
  return Math.round(durationOf(raw))
}

/** Milliseconds of a duration, as CEL reads it; 0 for other text. */
function durationOf(raw: string): number {
  return Number(/^(\d{1,9})ms$/.exec(raw)?.[1] ?? parseDuration(raw) ?? 0)
}

const number = '[0-9]{1,9}(\\.[0-9]{1,6})?'
const durationPattern = `^([0-9]{1,9}ms|(${number}h)?(${number}m)?(${number}s)?)$`

/** The values for which the gateway has routes. */
const idles = ['10s', '30s', '1m', '2m', '5m', '10m', '15m', '30m', '1h']
export const idleTimeouts: readonly number[] = idles.map((idle) => millisecondsOf(idle) / 1_000)

export const upstreamModelSchema = text({
  description: "the server's name for the model",
  otherwise: 'the one in the body stays',
  minLength: 1,
  maxLength: 256,
  pattern: '^[!#-[\\]-~]+$',
  form: 'of visible ASCII without ", \\ and blanks',
})

export const serverSchema = partial({
  upstreamModel: upstreamModelSchema,
  caFile: text({
    ...file,
    description:
      "PEM file of the CAs of the server's certificate, in the same folder as the credential",
    otherwise: "`BACKEND_CA_FILE`, else the system's",
  }),
  timeouts: object(
    partial({
      connect: duration('how long a connection may take', '1m', '`5s`'),
      idle: text({
        description: 'longest pause within request and response',
        otherwise: '`5m`',
        maxLength: 32,
        pattern: durationPattern,
        form: `one of ${idles.join(', ')}`,
        rules: [
          {
            cel: `duration(self) in [${idles.map((idle) => `duration('${idle}')`).join(', ')}]`,
            message: `must be one of ${idles.join(', ')}`,
            holds: (raw: string) => idles.some((idle) => durationOf(idle) === durationOf(raw)),
          },
        ],
      }),
      answer: duration('how long a response may take, to its end', '24h', 'none'),
    }),
    { description: 'time limits for the server' },
  ),
  retries: integer(0, 5, {
    description: 'how often a request that could not connect is retried',
    otherwise: '2; 0 where `backendUrl` names an address',
  }),
  paths: text({
    description: '`all` opens all paths of the server, not only the known operations',
    otherwise: '`known`',
    enum: ['known', 'all'],
  }),
})

/** Properties of the responses of the model's server. */
export const outputSchema = object(
  {
    maxTokens: optional(
      integer(1, 1_000_000_000, {
        description:
          'the most output tokens that the server generates for one choice, whatever the request says',
        otherwise: 'unknown',
      }),
    ),
    honoursMaxTokens: withDefault(
      boolean({
        description:
          "whether the server ends responses at the request's maximum of output tokens. If not, the gateway sets no ceiling in requests that reserve, and their limits have no bound",
        otherwise: '`true`',
      }),
      true,
    ),
    maxTokensField: optional(
      text({
        description:
          "the field from which the server reads the maximum of a chat call. With `max_tokens`, for servers that ignore `max_completion_tokens` as Ollama does, the gateway sends a request's `max_completion_tokens` as `max_tokens`, too",
        otherwise: '`max_completion_tokens`',
        enum: ['max_completion_tokens', 'max_tokens'],
      }),
    ),
    streamUsage: optional(
      text({
        description:
          'whether the gateway requests the usage of streams of chat and completions (`stream_options`). With `unasked`, for servers that refuse these options and report usage by themselves, it sends the options of the client; a stream without usage is unusable usage',
        otherwise: '`asked`',
        enum: ['asked', 'unasked'],
      }),
    ),
    usageOfAllAnswers: optional(
      boolean({
        description:
          'whether the server reports the usage of all choices of a request. With `false`, for servers that report the usage of one choice as llama.cpp does, requests for several choices (`n`, lists of prompts) are refused on chat and completions if these are counted',
        otherwise: "`true`; `false` where the server's list of models says that it is llama.cpp's",
      }),
    ),
    usageInEveryChunk: withDefault(
      boolean({
        description:
          'whether the server can report usage in each event of a stream, as vLLM does (`continuous_usage_stats`); the gateway then requests it on chat and completions if these are counted',
        otherwise: '`false`',
      }),
      false,
    ),
  },
  {
    description:
      "the responses of the model's server, for estimates ([reservation.md](reservation.md))",
  },
)

/** In the original's form: its Secret contains `api-key`. */
export const credentialReferenceSchema = object({ name: text(file) })
