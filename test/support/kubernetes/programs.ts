import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'

/** The path of a program on PATH or in the folder of `go install`; undefined if it is missing. */
export function findProgram(name: string): string | undefined {
  const { PATH = '', GOBIN = join(homedir(), 'go', 'bin') } = process.env
  return [...PATH.split(delimiter), GOBIN].map((folder) => join(folder, name)).find(existsSync)
}
