import { execFileSync } from 'node:child_process'

/** The commands that `tollgate up` prints for pasting, each with the comment above it. */
export function tryLines(output: string): string[] {
  return [...output.matchAll(/^# .*\ncurl -i (?:.*\\\n)*.*$/gm)].map(([command]) => command)
}

/** The status that the command prints when pasted into a shell. */
export function paste(command: string): number {
  const answer = execFileSync('sh', ['-c', `${command} --silent`], { encoding: 'utf8' })
  return Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])
}
