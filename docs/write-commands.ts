/**
 * `npm run commands`: writes docs/commands.md from the commands and their flags; a test checks that it is up
 * to date.
 */

import { writeFileSync } from 'node:fs'
import type { Command } from '../src/cli/command.ts'
import { connectionFlags } from '../src/cli/commands/flags.ts'
import { commands } from '../src/cli/commands.ts'
import { flagRows, showOperand } from '../src/cli/help.ts'

const head = `# Commands

\`tollgate help <command>\`, or \`<command> --help\`, shows the same in a terminal. \`tollgate completion bash|zsh|fish\` prints a
script that completes commands, flags and values.

**Which gateway.** Commands that call a gateway take \`--url <url>\`, else \`TOLLGATE_URL\`, else the address that \`tollgate login\`
has stored, else \`http://127.0.0.1:8000\`. The credential is \`TOLLGATE_TOKEN\`, else that in the file \`TOLLGATE_TOKEN_FILE\`, else the one
that \`tollgate login\` has stored for this address; it is sent nowhere else. Over plain http it is sent only to this machine, unless
\`--insecure-http\` is given.

**Exit status.** 0: done. 1: refused, or failed. 2: invalid arguments; standard error has one sentence, with the nearest name and the
help command. 3: the gateway, or the service, does not respond. What a command adds is below. If the response to a change is lost or incomplete, standard
error says that it may or may not have been carried out.

**JSON.** With \`--json\` standard output is one JSON document, and everything else goes to standard error.
`

function sectionOf({ name, summary, about, operands = [], flags, exit }: Command): string {
  const asks = Object.hasOwn(flags, 'url')
  const isOwn = ([flag]: readonly [string, unknown]) =>
    !asks || !Object.hasOwn(connectionFlags, flag)
  const own = Object.fromEntries(Object.entries(flags).filter(isOwn))
  const rows = flagRows(own).map(([flag, means]) => `| \`${flag}\` | ${escaped(means)} |`)
  const call = ['tollgate', name, ...operands.map(showOperand)].join(' ')
  return [
    `## tollgate ${name}`,
    `\`${call}\`: ${summary}.${asks ? ' Calls a gateway.' : ''}`,
    escaped(about ?? ''),
    rows.length === 0 ? '' : ['| flag | means |', '|---|---|', ...rows].join('\n'),
    exit === undefined ? '' : `Exit status: ${exit}`,
  ]
    .filter(Boolean)
    .join('\n\n')
}

function oldNames(): string {
  const rows = Object.entries(commands.renamed).map(
    ([old, now]) => `| \`tollgate ${old}\` | \`tollgate ${now}\` |`,
  )
  return [
    '## Old names',
    'They stay for one release, and say the new one.',
    ['| was | is |', '|---|---|', ...rows].join('\n'),
  ].join('\n\n')
}

/** Names in angle brackets are no HTML. */
function escaped(text: string): string {
  return text.replaceAll('<', '\\<')
}

/** The page as it is committed. */
export function renderCommands(): string {
  return `${[head.trimEnd(), ...commands.all.map(sectionOf), oldNames()].join('\n\n')}\n`
}

if (import.meta.main) writeFileSync(new URL('./commands.md', import.meta.url), renderCommands())
