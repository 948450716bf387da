import { test } from 'tap'
import { redact, redactForLog } from '../../src/formats/redact.ts'
import { costRatio } from '../support/cost.ts'

test('keys and tokens are removed wherever they stand', async (t) => {
  for (const [text, shown] of [
    ['sk-tg-4fTr0bJm9x_abc', '[redacted]'],
    ['"sk-oai-12345678", x', '"[redacted]", x'],
    ['eyJhbGciOi.eyJzdWIi.c2ln', '[redacted]'],
    ['Bearer eyJhbGciOi.eyJzdWIi.c2ln!', 'Bearer [redacted]!'],
    ['my-eyJhbGciOi.eyJzdWIi', 'my-[redacted]'],
    ['ey-eyJ-eyJhbGciOi.eyJzdWIi', '[redacted]'],
    ['a.b.eyJhbGciOi.eyJzdWIi', 'a.b.[redacted]'],
    ['sk-tg-4fTr0bJm9x-eyJhbGciOi.eyJzdWIi', '[redacted][redacted]'],
    ['eyJhbGciOi', 'eyJhbGciOi'],
    ['keyboard-layout.json', 'keyboard-layout.json'],
    ['ey.ey-short.x', 'ey.ey-short.x'],
    ['sk-tg-4fTr0b', 'sk-tg-4fTr0b'],
  ] as const) {
    t.equal(redact(text), shown)
  }
  t.equal(redactForLog(`${'x'.repeat(250)} sk-tg-4fTr0bJm9x_abc`), `${'x'.repeat(250)} [reda`)
  t.equal(redactForLog(`eyJ${'x'.repeat(1_000)}.eyJzdWIi more`), '[redacted] more')
})

test('the beginnings of tokens cost what other text costs', async (t) => {
  const plain = 'a'.repeat(16_000)
  for (const part of ['ey-', 'eyJ-eyJ', 'ey.', 'sk-a-', '-']) {
    const odd = part.repeat(16_000 / part.length)
    const ratio = costRatio(
      () => redact(plain),
      () => redact(odd),
    )
    t.ok(ratio < 10, `${part}: ${ratio.toFixed(1)} times`)
  }
})
