/**
 * The environment to build a Go program for tests, with further `flags`: without optimization, debug information and
 * cgo. On a machine without a build cache Go compiles the standard library too, and this halves the time. All builds
 * use the same settings, because the cache is separate for each combination.
 */
export function goBuildEnv(env: NodeJS.ProcessEnv, flags: readonly string[] = []) {
  const quick = ["'-gcflags=all=-N -l -dwarf=false'", "'-ldflags=-s -w'"]
  const GOFLAGS = [env.GOFLAGS, ...quick, ...flags].join(' ').trim()
  return { ...env, CGO_ENABLED: '0', GOFLAGS }
}
