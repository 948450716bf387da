import { execFileSync } from 'node:child_process'

/** The lines to paste among what `tollgate up` has printed. */
export function tryLines(output: string): string[] {
  return output.split('\n').filter((line) => line.startsWith('curl -i '))
}

/** The status that pasting the line into a shell shows. */
export function paste(line: string): number {
  const answer = execFileSync('sh', ['-c', `${line} --silent`], { encoding: 'utf8' })
  return Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])
}
