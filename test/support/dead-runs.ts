import { spawnSync } from 'node:child_process'
import { readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { identify, isRunning, readIdentity, readIfThere } from '../../dev/process-identity.ts'
import { folderPrefix } from './temporary-folder.ts'

/** Identifies the process that uses the folder. */
const note = 'run.json'

/** Notes in the folder of this run that it is in use until this process ends, however it ends. */
export function claimForRun(folder: string): void {
  const owner = { ...identify(process.pid), namespace: pidNamespace() }
  writeFileSync(join(folder, note), JSON.stringify(owner))
}

/**
 * Removes the leftovers of killed runs in this folder, which may be in memory, and the shared memory segment that a
 * Postgres creates there. Does not remove folders without a note, or folders of processes that this one cannot see.
 */
export function removeDeadRuns(parent: string): void {
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(folderPrefix)) continue
    const folder = join(parent, name)
    const owner = readIdentity(join(folder, note))
    if (owner === undefined || isRunning(owner) || namespaceIn(folder) !== pidNamespace()) continue
    removeSegment(join(folder, 'postgres', 'data', 'postmaster.pid'))
    try {
      rmSync(folder, { recursive: true, force: true })
    } catch {
      // It belongs to another user.
    }
  }
}

/** Line 7 of the file has key and number of the segment, which a running server has attached. */
function removeSegment(pidFile: string): void {
  const [key, id] = readIfThere(pidFile)?.split('\n')[6]?.trim().split(/\s+/) ?? []
  const rows = (readIfThere('/proc/sysvipc/shm') ?? '').split('\n')
  const row = rows.map((line) => line.trim().split(/\s+/)).find((each) => each[1] === id)
  if (id !== undefined && row?.[0] === key && row?.[6] === '0') spawnSync('ipcrm', ['-m', id])
}

function namespaceIn(folder: string): unknown {
  return JSON.parse(readIfThere(join(folder, note)) ?? '{}').namespace
}

/** Process ids of another namespace mean nothing here. */
function pidNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return 'the only one'
  }
}
