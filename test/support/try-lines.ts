import { execFileSync } from 'node:child_process'

/** The lines that `tollgate up` prints for pasting. */
export function tryLines(output: string): string[] {
  return output.split('\n').filter((line) => line.startsWith('curl -i '))
}

/** The status that the line prints when pasted into a shell. */
export function paste(line: string): number {
  const answer = execFileSync('sh', ['-c', `${line} --silent`], { encoding: 'utf8' })
  return Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])
}
