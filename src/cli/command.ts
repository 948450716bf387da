/**
 * Describes commands: their words, operands and flags. Parsing, help, completion, the suggestion for a misspelled word
 * and docs/commands.md follow from this.
 */

import type { CommandIo } from './terminal.ts'

/** A positional argument. */
export interface Operand {
  /** Its name in help: `id` for `<id>`. */
  readonly name: string
  readonly optional?: true
  /** Takes all further words; only the last operand. */
  readonly many?: true
  readonly choices?: readonly string[]
  /** A path, for completion. */
  readonly at?: 'file' | 'folder'
}

interface Described {
  /** Its effect, in a sentence without a capital letter and a full stop. */
  readonly means: string
}

/** A flag without a value. */
interface Switch extends Described {
  readonly takes?: undefined
  /** The field's name in messages of the API. */
  readonly field?: string
}

/** A flag with a value. */
export interface Option extends Described {
  /** The value in help: `<name>`, `30d`. */
  readonly takes: string
  /** It may be given several times. */
  readonly many?: true
  readonly choices?: readonly string[]
  /** An empty value is one; else it is refused, as usually an unset variable of a script. */
  readonly mayBeEmpty?: true
  /** Suggested values, for completion; others are accepted, too. */
  readonly suggests?: readonly string[]
  /** A path, for completion. */
  readonly at?: 'file' | 'folder'
  /** The field's name in messages of the API, if it differs from the flag. */
  readonly field?: string
}

export type Flag = Switch | Option
export type Flags = Readonly<Record<string, Flag>>

type ValueOf<One extends Flag> = One extends { readonly takes: string }
  ? One extends { readonly many: true }
    ? readonly string[] | undefined
    : string | undefined
  : boolean

/** The values of a command line, by the command's flags. */
export interface CliCall<Given extends Flags = Flags> {
  readonly operands: readonly string[]
  readonly flags: { readonly [Name in keyof Given]: ValueOf<Given[Name]> }
}

export type FlagsOf<Given extends Flags> = CliCall<Given>['flags']

export interface Command<Given extends Flags = Flags> {
  /** One or two words. */
  readonly name: string
  /** One line for a list of commands, without a full stop. */
  readonly summary: string
  /** Further explanations, in paragraphs. */
  readonly about?: string
  readonly operands?: readonly Operand[]
  readonly flags: Given
  /** The last section of its help, if it is costly to build. */
  readonly details?: () => Promise<string>
  /** The meanings of the exit statuses, if there are more than success and failure. */
  readonly exit?: string
}

/** Runs a command; returns its exit status. Rejects with a readable error. */
export type Run<Of extends Flags = Flags> = (call: CliCall<Of>, io: CommandIo) => Promise<number>

/** Infers the types of a command's flags. */
export function command<const Given extends Flags>(defined: Command<Given>): Command<Given> {
  return defined
}

/** Invalid arguments: a sentence, to which the runner adds the help command. The exit status is 2. */
export class WrongCall extends Error {}

/** No response. The exit status is 3. */
export class Unreachable extends Error {}
