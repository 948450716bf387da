/** Icons next to words with the same meaning: 24 units wide, in the colour of the text. */

const paths = {
  overview: 'M4 4h7v9H4zM13 4h7v5h-7zM13 11h7v9h-7zM4 15h7v5H4z',
  key: 'M14.5 9.5m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0M11 13l-7 7M7 17l2.5 2.5M14.5 9.5h.01',
  model: 'M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5l8-4.5M12 12v9',
  usage: 'M4 20h16M6.5 16v-5M11 16V6M15.5 16v-7M20 16v-3',
  budget: 'M12 12m-9 0a9 9 0 1 0 18 0a9 9 0 1 0 -18 0M12 12V3M12 12l7.8 4.5',
  why: 'M9 9.2a3 3 0 1 1 4.4 2.7c-.9.5-1.4 1.1-1.4 2.1M12 17.5h.01M12 12m-9 0a9 9 0 1 0 18 0a9 9 0 1 0 -18 0',
  access:
    'M9 11a3.5 3.5 0 1 0 0-7a3.5 3.5 0 0 0 0 7zM2.5 20c.4-3.6 3-5.5 6.5-5.5s6.1 1.9 6.5 5.5M16 4.4a3.5 3.5 0 0 1 0 6.3M18.5 14.9c1.7.9 2.7 2.6 3 5.1',
  resources: 'M5 4h9l5 5v11H5zM14 4v5h5M8.5 13h7M8.5 16.5h5',
  refusals: 'M12 12m-9 0a9 9 0 1 0 18 0a9 9 0 1 0 -18 0M5.8 5.8l12.4 12.4',
  state: 'M3 12h4l3-7l4 14l3-7h4',
  reference: 'M8 8l-4 4l4 4M16 8l4 4l-4 4M13.5 5l-3 14',
  system: 'M4 5h16v11H4zM9 20h6M12 16v4',
  light:
    'M12 12m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0M12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21M5.6 5.6l1.1 1.1M17.3 17.3l1.1 1.1M5.6 18.4l1.1-1.1M17.3 6.7l1.1-1.1',
  dark: 'M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z',
  more: 'M6 12h.01M12 12h.01M18 12h.01',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  cross: 'M6 6l12 12M18 6L6 18',
  alert: 'M12 4l9 16H3zM12 10v4.5M12 17.2h.01',
  clock: 'M12 12m-9 0a9 9 0 1 0 18 0a9 9 0 1 0 -18 0M12 7v5l3.5 2',
  search: 'M10.5 10.5m-6.5 0a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0M15.5 15.5L20 20',
  plus: 'M12 5v14M5 12h14',
} as const

export type IconName = keyof typeof paths

export function Icon({ name, size = 18 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  )
}

/** A barrier that is open. */
export function Mark() {
  return (
    <svg className="mark" width="26" height="26" viewBox="0 0 26 26" aria-hidden="true">
      <rect width="26" height="26" rx="7" />
      <path d="M7 20v-8M7 12.5L19.5 7M4.5 20h5" />
    </svg>
  )
}
