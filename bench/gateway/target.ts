/** A running gateway to measure: its URL and a key. */

import { checkUrl } from '../../src/cli/api-target.ts'
import type { Asking, Case } from './cases.ts'
import type { Subject } from './measure.ts'

/** The target by its arguments. */
export interface Target {
  readonly url: string
  /** URL of a server to compare with, such as the model server itself; it gets the key too. */
  readonly baseline?: string | undefined
  readonly key: string
  readonly model: string
  /** `/namespace/name`; no rows by path if undefined. */
  readonly modelPath?: string | undefined
}

export interface TargetFlags {
  readonly target?: string | undefined
  readonly baseline?: string | undefined
  readonly key?: string | undefined
  readonly model?: string | undefined
  readonly 'model-path'?: string | undefined
  readonly 'insecure-http'?: boolean | undefined
}

/** Throws an Error that names the flag. `envKey` replaces --key, which other users could see. */
export function readTarget(flags: TargetFlags, envKey: string | undefined): Target | undefined {
  const { target, baseline, model } = flags
  if (target === undefined) {
    for (const flag of ['baseline', 'key', 'model', 'model-path', 'insecure-http'] as const) {
      if (flags[flag] !== undefined) throw new Error(`--${flag} is for a --target.`)
    }
    return undefined
  }
  const url = (flag: string, written: string): string => {
    try {
      return checkUrl(written, flags['insecure-http'] ?? false)
    } catch (error) {
      throw new Error(`${flag}: ${(error as Error).message}`)
    }
  }
  const key = flags.key ?? envKey?.trim()
  if (!key) throw new Error('--target needs --key, or a key in TOLLGATE_KEY.')
  if (!/^[\x21-\x7e]+$/.test(key)) throw new Error('--key contains spaces or invalid characters.')
  if (!model) throw new Error('--target needs --model: the name of the model in bodies.')
  const modelPath = flags['model-path']?.replace(/\/+$/, '')
  if (modelPath !== undefined && !/^(\/[\w.~%-]+)+$/.test(modelPath)) {
    throw new Error(`--model-path is like /namespace/model, not "${flags['model-path']}".`)
  }
  return {
    url: url('--target', target),
    baseline: baseline === undefined ? undefined : url('--baseline', baseline),
    key,
    model,
    modelPath,
  }
}

/** The cases that can be measured there. */
export function casesOfTarget({ modelPath }: Target, cases: readonly Case[]): readonly Case[] {
  return cases.filter(({ route }) => route === 'body' || modelPath !== undefined)
}

export function subjectsOfTarget({ url, baseline }: Target): readonly Subject[] {
  return [...(baseline ? [{ name: 'bare', url: baseline }] : []), { name: 'gateway', url }]
}

export function askingOf({ url, key, model, modelPath = '' }: Target): Asking {
  const { host, pathname } = new URL(url)
  // An OpenAI client's base URL ends in /v1, which is part of the request paths.
  const base = pathname.replace(/\/+$/, '').replace(/\/v1$/, '')
  return { host, base, keys: [key], model, modelPath }
}
