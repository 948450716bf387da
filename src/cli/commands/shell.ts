/** Commands for the terminal that they are used in. */

import { command } from '../command.ts'
import { connection, json } from './shared.ts'

export const loginFlags = { 'insecure-http': connection['insecure-http'], ...json } as const

export const login = command({
  name: 'login',
  summary: 'Keep the address of a gateway and your credential for it',
  about:
    'Reads an identity token or an API key from standard input, asks the gateway whose it is, and keeps both in ' +
    'tollgate/login.json below XDG_CONFIG_HOME (default ~/.config), readable for you alone. What is kept is sent to that ' +
    'address only. TOLLGATE_URL, TOLLGATE_TOKEN and TOLLGATE_TOKEN_FILE take precedence.',
  operands: [{ name: 'url', optional: true }],
  flags: loginFlags,
})

export const logout = command({
  name: 'logout',
  summary: 'Forget the credential that login has kept',
  about: 'Of <url>, or of all gateways. The credential stays valid: revoke a key to end it.',
  operands: [{ name: 'url', optional: true }],
  flags: json,
})

export const completion = command({
  name: 'completion',
  summary: 'Print what completes commands and flags in a shell',
  about:
    'bash: source <(tollgate completion bash), in ~/.bashrc\n' +
    'zsh:  source <(tollgate completion zsh), in ~/.zshrc after compinit\n' +
    'fish: tollgate completion fish > ~/.config/fish/completions/tollgate.fish',
  operands: [{ name: 'shell', choices: ['bash', 'zsh', 'fish'] }],
  flags: {},
})
