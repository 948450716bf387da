import { linkSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openHeadFile } from '../../src/journal/head-file.ts'
import { type ReadLine, readLine } from '../../src/journal/read-line.ts'

/** The files with a gateway's lines, as the service creates them and renames them. */
export interface Lines {
  /** Creates what a folder needs before lines are written to it. */
  prepare(folder?: string): void
  /** Renames the script's file; the gateway is told. */
  rename(): void
  /** How many lines the script says it could not write. */
  failed(): number
  /** Lines of all files, in the order of each. */
  ofScript(): readonly ReadLine[]
  ofEnvoy(): readonly ReadLine[]
  /** How many lines are not read, in all files. */
  torn(): number
}

const name = 'usage.jsonl'

export function createLines(folders: { readonly script: string; readonly envoy: string }): Lines {
  let renamed = 1_795_000_000_000
  const at = (file: string, folder = folders.script): string => join(folder, file)
  const openHead = (folder?: string) => openHeadFile(at('usage.head', folder))
  const textsOf = (folder: string, first: string): readonly string[] =>
    readdirSync(folder)
      .filter((file) => file.startsWith(first))
      .flatMap((file) => readFileSync(at(file, folder), 'utf8').split('\n'))
      .filter((line) => line !== '')
  const read = (texts: readonly string[]) => texts.flatMap((text) => readLine(text) ?? [])
  const ofScript = () => textsOf(folders.script, name)
  const ofEnvoy = () => textsOf(folders.envoy, 'usage.envoy.jsonl')

  return {
    prepare(folder) {
      writeFileSync(at(name, folder), '', { mode: 0o600 })
      openHead(folder).close()
    },
    rename() {
      writeFileSync(at('fresh'), '', { mode: 0o600 })
      renamed += 1
      // At each moment there is a file of the name, since the script creates none.
      linkSync(at(name), at(`${name}.${renamed}`))
      renameSync(at('fresh'), at(name))
      const head = openHead()
      head.noteRenamed()
      head.close()
    },
    failed() {
      const head = openHead()
      try {
        return head.read().failed
      } finally {
        head.close()
      }
    },
    ofScript: () => read(ofScript()),
    ofEnvoy: () => read(ofEnvoy()),
    torn: () => [...ofScript(), ...ofEnvoy()].filter((text) => readLine(text) === undefined).length,
  }
}
