/** The arguments of `tollgate bench`. */

import { parseArgs } from 'node:util'
import { type Case, cases } from './cases.ts'

export interface BenchOptions {
  readonly cases: readonly Case[]
  /** For measuring, warming up not counted. */
  readonly seconds: number
  readonly rounds: number
  readonly connections: number
  readonly perSecond: number
  readonly envoyThreads: number
  readonly set: Readonly<Record<string, string>>
}

/** A call that makes no sense; its message says which argument and why. */
export class WrongCall extends Error {
  override readonly name = 'WrongCall'
}

const LEAST_ROUNDS = 3
const taken = { type: 'string' } as const

export function readOptions(args: readonly string[]): BenchOptions {
  const { values } = parse(args)
  return {
    cases: readCases(values.rows),
    seconds: readNumber('--seconds', values.seconds, 180, 2, 3_600),
    rounds: readNumber('--rounds', values.rounds, LEAST_ROUNDS, LEAST_ROUNDS, 99),
    connections: readNumber('--connections', values.connections, 32, 1, 1_000),
    perSecond: readNumber('--rate', values.rate, 400, 1, 50_000),
    envoyThreads: readNumber('--concurrency', values.concurrency, 1, 1, 64),
    set: readSettings(values.set ?? []),
  }
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        rows: taken,
        seconds: taken,
        rounds: taken,
        connections: taken,
        rate: taken,
        concurrency: taken,
        set: { type: 'string', multiple: true },
      },
    })
  } catch (error) {
    throw new WrongCall((error as Error).message)
  }
}

/** Each part of `--rows` is a word of names: `path`, `small`, `path-json-small`. */
function readCases(written: string | undefined): readonly Case[] {
  if (written === undefined) return cases
  const wanted = written.split(',').map((name) => name.trim().split('-'))
  const found = cases.filter(({ name }) =>
    wanted.some((words) => words.every((word) => name.split('-').includes(word))),
  )
  for (const words of wanted) {
    if (!cases.some(({ name }) => words.every((word) => name.split('-').includes(word)))) {
      throw new WrongCall(
        `--rows: there is no row "${words.join('-')}"; rows are ${cases.map(({ name }) => name).join(', ')}, or words of these.`,
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
