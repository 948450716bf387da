/**
 * Names windows by their owner and the time at which they reset, from responses. That is rounded, and processes may
 * differ by a second: times that are nearer than `apartMs` belong to one window.
 */
export function createWindowNames(apartMs: number) {
  const known = new Map<string, number[]>()
  return (owner: string, reset: string | null): string => {
    const at = Date.parse(reset ?? '')
    const resets = known.get(owner) ?? []
    known.set(owner, resets)
    const same = resets.find((each) => Math.abs(each - at) < apartMs)
    if (same === undefined) resets.push(at)
    return `${owner} ${same ?? at}`
  }
}
