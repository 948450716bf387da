import { test } from 'tap'
import { parseRedisUrl } from '../../src/formats/redis-url.ts'

const single = { kind: 'single', name: '', options: {} } as const

test('every form of REDIS_URL is read', async (t) => {
  const cases: readonly (readonly [string, object])[] = [
    ['redis://localhost', { ...single, nodes: [{ host: 'localhost', port: 6_379 }] }],
    ['redis://10.0.0.1:7000/', { ...single, nodes: [{ host: '10.0.0.1', port: 7_000 }] }],
    ['redis://[::1]:7000', { ...single, nodes: [{ host: '::1', port: 7_000 }] }],
    [
      'rediss://ada:p%40ss%2Fw%3Ard@redis.example:6380/3',
      {
        ...single,
        nodes: [{ host: 'redis.example', port: 6_380 }],
        options: { username: 'ada', password: 'p@ss/w:rd', db: 3, tls: {} },
      },
    ],
    [
      'redis://:secret@h',
      { ...single, nodes: [{ host: 'h', port: 6_379 }], options: { password: 'secret' } },
    ],
    [
      'redis+sentinel://:secret@a:1,b/main',
      {
        kind: 'sentinel',
        nodes: [
          { host: 'a', port: 1 },
          { host: 'b', port: 26_379 },
        ],
        name: 'main',
        options: { password: 'secret' },
      },
    ],
    [
      'rediss+cluster://a:1,b:2,[::1]',
      {
        kind: 'cluster',
        nodes: [
          { host: 'a', port: 1 },
          { host: 'b', port: 2 },
          { host: '::1', port: 6_379 },
        ],
        name: '',
        options: { tls: {} },
      },
    ],
  ]
  for (const [url, expected] of cases) t.strictSame(parseRedisUrl(url), expected, url)
})

test('other forms are refused', async (t) => {
  for (const url of [
    '',
    'localhost:6379',
    'http://localhost',
    'redis://',
    'redis://a:1,b:2',
    'redis://a:65536',
    'redis://a:x',
    'redis://a/name',
    'redis://a/1/2',
    'redis://a?db=1',
    'redis://bad%zz@a',
    'redis://a b',
    // Otherwise a part of the password would be looked up as a host, and logged.
    'redis://user:pass@word@a',
    'redis+sentinel://a:1',
    'redis+cluster://a:1/0',
    'redis+cluster://a:1,,b:2',
    'redis+other://a',
  ]) {
    t.equal(parseRedisUrl(url), undefined, url)
  }
})
