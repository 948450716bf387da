/** The list of settings, as text. */

import { type Setting, settings } from './all-settings.ts'

export const allSettings: readonly Setting<unknown>[] = Object.values(settings)

/** As plain text, two lines each. */
export function settingsList(): string {
  const lines = allSettings.flatMap((setting) => [
    `  ${setting.name} (${defaultOf(setting)})`,
    `      ${setting.meaning}: ${setting.reader.form}`,
  ])
  return lines.join('\n').replaceAll('`', '')
}

/** In Markdown. */
export function defaultOf({ fallback, otherwise }: Setting<unknown>): string {
  return fallback === undefined ? otherwise : `\`${fallback}\``
}
