import { spawnSync } from 'node:child_process'
import type { Test } from 'tap'

/** One line of a scrape. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** The type from `# TYPE`, and the samples by their full name (`…_bucket` and so on). */
export interface Family {
  readonly type: string
  readonly help: string
  readonly samples: ReadonlyMap<string, readonly Sample[]>
}

/** A scrape, read by the rules of Prometheus' text format 0.0.4. */
export interface Scrape {
  readonly families: ReadonlyMap<string, Family>
  /** The sample with exactly these labels; undefined if there is none. */
  value(name: string, labels?: Readonly<Record<string, string>>): number | undefined
  samples(name: string): readonly Sample[]
}

interface Growing extends Omit<Family, 'samples'> {
  readonly samples: Map<string, Sample[]>
}

const line = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/s
const label = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\["\\n])*)"(?:,|$)/gy
const number = /^(?:[+-]?Inf|NaN|[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/

/** Reads a scrape; throws for text that Prometheus would refuse or misread. */
export function readScrape(text: string): Scrape {
  if (!text.endsWith('\n')) throw new Error('the last line does not end')
  const families = new Map<string, Growing>()
  const seen = new Set<string>()
  let current: [name: string, help: string] = ['', '']
  for (const each of text.slice(0, -1).split('\n')) {
    const [, keyword = '', of = '', rest = ''] = /^# (HELP|TYPE|UNIT) (\S+) (.*)$/.exec(each) ?? []
    if (keyword === 'HELP') current = [of, rest]
    else if (keyword === 'TYPE') {
      if (of !== current[0]) throw new Error(`no HELP before the TYPE of ${of}`)
      if (families.has(of)) throw new Error(`${of} is there twice`)
      families.set(of, { type: rest, help: current[1], samples: new Map() })
    } else if (keyword === '' && each !== '') readSample(each)
  }

  function readSample(text: string): void {
    const [, name = '', written = '', value = ''] = line.exec(text) ?? []
    if (!number.test(value)) throw new Error(`not a sample: ${text}`)
    const family = families.get(current[0])
    const suffix = name.slice(current[0].length)
    const isOwn = name.startsWith(current[0]) && ['', '_bucket', '_sum', '_count'].includes(suffix)
    if (family === undefined || !isOwn) throw new Error(`belongs to no family: ${text}`)
    if ((family.type === 'histogram') !== (suffix !== '')) throw new Error(`misplaced: ${text}`)
    const labels = readLabels(written)
    const identity = `${name} ${JSON.stringify(Object.entries(labels).sort())}`
    if (seen.has(identity)) throw new Error(`twice: ${text}`)
    seen.add(identity)
    const samples = family.samples.get(name)
    const sample = { labels, value: toNumber(value) }
    if (samples === undefined) family.samples.set(name, [sample])
    else samples.push(sample)
  }

  const samples = (name: string) => {
    for (const family of families.values()) {
      const found = family.samples.get(name)
      if (found !== undefined) return found
    }
    return []
  }
  return {
    families,
    samples,
    value: (name, labels = {}) =>
      samples(name).find((sample) => isSame(sample.labels, labels))?.value,
  }
}

/** Claims that Prometheus' own checker accepts the text, if it is on PATH. */
export function passesPromtool(t: Test, text: string): void {
  const { error, status, stderr } = spawnSync('promtool', ['check', 'metrics'], {
    input: text,
    encoding: 'utf8',
  })
  if (error !== undefined) t.comment('no promtool on PATH')
  else t.equal(status, 0, stderr)
}

function readLabels(written: string): Record<string, string> {
  const labels: Record<string, string> = {}
  let end = 0
  for (const [whole, name = '', value = ''] of written.matchAll(label)) {
    if (name in labels) throw new Error(`${name} twice in ${written}`)
    labels[name] = value.replace(/\\(.)/g, (_, character) => (character === 'n' ? '\n' : character))
    end += whole.length
  }
  if (end !== written.length) throw new Error(`not labels: ${written}`)
  return labels
}

function isSame(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name])
}

function toNumber(text: string): number {
  return Number(text.replace('Inf', 'Infinity'))
}
