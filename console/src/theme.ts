import { Alert, Badge, Button, type CSSVariablesResolver, createTheme, Modal } from '@mantine/core'

export const theme = createTheme({
  primaryColor: 'indigo',
  primaryShade: { light: 8, dark: 7 },
  autoContrast: true,
  defaultRadius: 'md',
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  headings: { fontWeight: '600' },
  components: {
    // Yellow on white has too little contrast.
    Alert: Alert.extend({ styles: { title: { color: 'var(--mantine-color-text)' } } }),
    Badge: Badge.extend({ styles: { label: { fontWeight: 500 } } }),
    Button: Button.extend({ styles: { label: { fontWeight: 500 } } }),
    // Mantine locks the scroll by a style element without a nonce, which the page's policy refuses.
    Modal: Modal.extend({
      defaultProps: {
        lockScroll: false,
        centered: true,
        // The button that has opened it may be gone, as after a revocation.
        onExitTransitionEnd: () => {
          if (document.activeElement === document.body) document.querySelector('h1')?.focus()
        },
        closeButtonProps: { 'aria-label': 'Close' },
      },
      styles: { title: { fontWeight: 600 } },
    }),
  },
})

/** Mantine's dimmed text does not have the contrast of 4.5 to 1. */
export const variables: CSSVariablesResolver = () => ({
  variables: {},
  light: { '--mantine-color-dimmed': '#495057', '--mantine-color-placeholder': '#5c636a' },
  dark: {
    '--mantine-color-anchor': '#91a7ff',
    '--mantine-color-dimmed': '#b8bcc2',
    '--mantine-color-placeholder': '#9aa0a6',
  },
})
