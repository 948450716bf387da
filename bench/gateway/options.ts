/** The arguments of `npm run bench`. */

import { parseArgs } from 'node:util'
import { allCases, type Case } from './cases.ts'
import { casesOfTarget, readTarget, type Target } from './target.ts'

export interface BenchOptions {
  readonly cases: readonly Case[]
  /** Time for measuring, without warming up. */
  readonly seconds: number
  readonly rounds: number
  readonly connections: number
  readonly perSecond: number
  readonly envoyThreads: number
  readonly set: Readonly<Record<string, string>>
  readonly yardsticks: boolean
  /** If undefined, the gateway is started here. */
  readonly target: Target | undefined
  /** Files: output (`-`: standard output instead of the table); input. */
  readonly json: string | undefined
  readonly compare: string | undefined
}

/** Invalid arguments; the message names the argument and the problem. */
export class WrongCall extends Error {
  override readonly name = 'WrongCall'
}

const minRounds = 3
const taken = { type: 'string' } as const

/** `env` may contain TOLLGATE_KEY. Throws a WrongCall. */
export function readOptions(args: readonly string[], env: NodeJS.ProcessEnv): BenchOptions {
  const { values } = parse(args)
  const target = refusing(() => readTarget(values, env.TOLLGATE_KEY))
  if (target !== undefined && (values.set ?? values.concurrency) !== undefined) {
    throw new WrongCall('--set and --concurrency are for what is started here, not for a --target.')
  }
  const wanted = readCases(values.rows)
  const cases = target === undefined ? wanted : casesOfTarget(target, wanted)
  if (cases.length === 0)
    throw new WrongCall('--rows: rows by path of a --target need --model-path.')
  return {
    cases,
    target,
    yardsticks: !values['no-yardsticks'] && target === undefined,
    json: values.json,
    compare: values.compare,
    seconds: readNumber('--seconds', values.seconds, 180, 2, 3_600),
    rounds: readNumber('--rounds', values.rounds, minRounds, minRounds, 99),
    connections: readNumber('--connections', values.connections, 32, 1, 1_000),
    perSecond: readNumber('--rate', values.rate, 400, 1, 50_000),
    envoyThreads: readNumber('--concurrency', values.concurrency, 1, 1, 64),
    set: readSettings(values.set ?? []),
  }
}

const flags = {
  rows: taken,
  seconds: taken,
  rounds: taken,
  connections: taken,
  rate: taken,
  concurrency: taken,
  set: { type: 'string', multiple: true },
  'no-yardsticks': { type: 'boolean' },
  target: taken,
  baseline: taken,
  key: taken,
  model: taken,
  'model-path': taken,
  'insecure-http': { type: 'boolean' },
  json: taken,
  compare: taken,
} as const

function parse(args: readonly string[]) {
  return refusing(() => parseArgs({ args: [...args], options: flags }))
}

function refusing<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw new WrongCall((error as Error).message)
  }
}

/** Each item of `--rows` is part of a name: `path`, `small`, `path-json-small`. */
function readCases(written: string | undefined): readonly Case[] {
  if (written === undefined) return allCases
  const wanted = written.split(',').map((name) => name.trim().split('-'))
  const found = allCases.filter(({ name }) =>
    wanted.some((words) => words.every((word) => name.split('-').includes(word))),
  )
  for (const words of wanted) {
    if (!allCases.some(({ name }) => words.every((word) => name.split('-').includes(word)))) {
      throw new WrongCall(
        `--rows: there is no row "${words.join('-')}"; rows are ${allCases.map(({ name }) => name).join(', ')}, or words of these.`,
      )
    }
  }
  return found
}

function readNumber(
  flag: string,
  written: string | undefined,
  fallback: number,
  least: number,
  most: number,
): number {
  if (written === undefined) return fallback
  const value = Number(written)
  if (/^\d+$/.test(written) && value >= least && value <= most) return value
  throw new WrongCall(`${flag} is a whole number from ${least} to ${most}, not "${written}".`)
}

function readSettings(written: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    written.map((each) => {
      const [, name, value] = /^([A-Z][A-Z0-9_]*)=(.*)$/s.exec(each) ?? []
      if (name === undefined || value === undefined) {
        throw new WrongCall(`--set is NAME=value, a setting of the service, not "${each}".`)
      }
      return [name, value]
    }),
  )
}
