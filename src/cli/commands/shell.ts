/** Commands that set up a terminal. */

import { command } from '../command.ts'
import { connectionFlags, jsonFlag } from './flags.ts'

export const loginFlags = {
  'insecure-http': connectionFlags['insecure-http'],
  ...jsonFlag,
} as const

export const loginCommand = command({
  name: 'login',
  summary: 'Save the address of a gateway and your credential',
  about:
    'Reads an identity token or an API key from standard input, verifies it with the gateway, and saves address and credential in ' +
    'tollgate/login.json below XDG_CONFIG_HOME (default ~/.config), readable only by you. The credential is sent to that ' +
    'address only. TOLLGATE_URL, TOLLGATE_TOKEN and TOLLGATE_TOKEN_FILE take precedence.',
  operands: [{ name: 'url', optional: true }],
  flags: loginFlags,
})

export const logoutCommand = command({
  name: 'logout',
  summary: 'Remove the credential that login has saved',
  about:
    'For the gateway at <url>, or for all gateways. The credential stays valid: revoke a key to end it.',
  operands: [{ name: 'url', optional: true }],
  flags: jsonFlag,
})

export const completionCommand = command({
  name: 'completion',
  summary: 'Print a completion script for a shell',
  about:
    'bash: source <(tollgate completion bash), in ~/.bashrc\n' +
    'zsh:  source <(tollgate completion zsh), in ~/.zshrc after compinit\n' +
    'fish: tollgate completion fish > ~/.config/fish/completions/tollgate.fish',
  operands: [{ name: 'shell', choices: ['bash', 'zsh', 'fish'] }],
  flags: {},
})
