/** The table of settings, as text. */

import { type Setting, settings } from './all-settings.ts'

const all: readonly Setting<unknown>[] = Object.values(settings)

/** As a table in Markdown. */
export function settingsTable(): string {
  const rows = all.map((setting) => {
    const { name, reader, meaning } = setting
    const cells = [`\`${name}\``, defaultOf(setting), reader.form, meaning]
    return `| ${cells.join(' | ')} |`
  })
  return ['| variable | default | value | meaning |', '|---|---|---|---|', ...rows].join('\n')
}

/** As plain text, two lines each. */
export function settingsList(): string {
  const lines = all.flatMap((setting) => [
    `  ${setting.name} (${defaultOf(setting)})`,
    `      ${setting.meaning}: ${setting.reader.form}`,
  ])
  return lines.join('\n').replaceAll('`', '')
}

function defaultOf({ fallback, otherwise }: Setting<unknown>): string {
  return fallback === undefined ? otherwise : `\`${fallback}\``
}
