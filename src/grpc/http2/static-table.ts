/** The static table of HPACK (RFC 7541, appendix A). */

/** The entries 15 to 61; all but one have no value. */
const names = `
  accept-charset accept-encoding accept-language accept-ranges accept access-control-allow-origin
  age allow authorization cache-control content-disposition content-encoding content-language
  content-length content-location content-range content-type cookie date etag expect expires from
  host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified link
  location max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after
  server set-cookie strict-transport-security transfer-encoding user-agent vary via
  www-authenticate
`

/** Names and values by their index, which begins at 1. */
export const staticFields: readonly (readonly [name: string, value: string])[] = [
  [':authority', ''],
  [':method', 'GET'],
  [':method', 'POST'],
  [':path', '/'],
  [':path', '/index.html'],
  [':scheme', 'http'],
  [':scheme', 'https'],
  [':status', '200'],
  [':status', '204'],
  [':status', '206'],
  [':status', '304'],
  [':status', '400'],
  [':status', '404'],
  [':status', '500'],
  ...names
    .trim()
    .split(/\s+/)
    .map((name) => [name, name === 'accept-encoding' ? 'gzip, deflate' : ''] as const),
]
