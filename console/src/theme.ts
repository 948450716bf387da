import {
  Alert,
  Badge,
  Button,
  Card,
  Checkbox,
  type CSSVariablesResolver,
  createTheme,
  type MantineColorsTuple,
  Modal,
} from '@mantine/core'

const gray: MantineColorsTuple = [
  '#f7f8fa',
  '#f0f2f5',
  '#e4e7ec',
  '#d6dae1',
  '#bfc5d0',
  '#98a0ae',
  '#6b7382',
  '#4a5160',
  '#2d3340',
  '#171b24',
]

const dark: MantineColorsTuple = [
  '#e3e6eb',
  '#b6bcc7',
  '#8f96a3',
  '#666d7a',
  '#3a404b',
  '#2a2f38',
  '#20242c',
  '#15181e',
  '#0f1115',
  '#0a0b0e',
]

export const theme = createTheme({
  colors: { gray, dark },
  black: '#171b24',
  primaryColor: 'indigo',
  primaryShade: { light: 8, dark: 7 },
  autoContrast: true,
  defaultRadius: 'md',
  fontFamily:
    'Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  fontFamilyMonospace:
    'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace',
  headings: {
    fontWeight: '600',
    sizes: { h1: { fontSize: '1.5rem', lineHeight: '1.3' } },
  },
  components: {
    // Yellow on white has too little contrast.
    Alert: Alert.extend({ styles: { title: { color: 'var(--mantine-color-text)' } } }),
    Badge: Badge.extend({ styles: { label: { fontWeight: 500 } } }),
    Button: Button.extend({ styles: { label: { fontWeight: 500 } } }),
    // With the radius of fields it would look like a radio button, of which one excludes the others.
    Checkbox: Checkbox.extend({ defaultProps: { radius: 4 } }),
    Card: Card.extend({ defaultProps: { padding: 'lg' } }),
    // Mantine locks the scroll by a style element without a nonce, which the page's policy refuses.
    Modal: Modal.extend({
      defaultProps: {
        lockScroll: false,
        centered: true,
        // A click beside a form would discard it.
        closeOnClickOutside: false,
        // The button that opened it may be gone, as after a revocation.
        onExitTransitionEnd: () => {
          if (document.activeElement === document.body) document.querySelector('h1')?.focus()
        },
        closeButtonProps: { 'aria-label': 'Close' },
      },
      styles: { title: { fontWeight: 600, fontSize: '1.05rem' } },
    }),
  },
})

/** Mantine's dimmed text lacks the contrast of 4.5 to 1. */
export const variables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--page': '#f7f8fa',
    '--mantine-color-error': '#c92a2a',
    '--raised': '0 1px 2px rgb(23 27 36 / 5%)',
    '--floating': '0 8px 28px rgb(23 27 36 / 16%)',
    '--track': '#e8ebf0',
    '--hover': '#eceef2',
    '--accent-soft': '#e6eafd',
    '--accent-ink': '#2f49b5',
    '--soft': '#eceef2',
    '--soft-ink': '#4a5160',
    '--wait-soft': '#fff3d6',
    '--wait-ink': '#7a4b00',
    '--yes-soft': '#e3f5ea',
    '--yes-ink': '#12653a',
    '--no-soft': '#fdeaea',
    '--no-ink': '#a32020',
    '--ceiling': '#c92a2a',
    '--bar': '#4263eb',
    '--bar-little': '#e8920c',
    '--bar-none': '#f6c9c7',
    '--mantine-color-default-border': '#e2e5ea',
    '--mantine-color-default-hover': '#f5f6f9',
    '--mantine-color-dimmed': '#545b69',
    '--mantine-color-placeholder': '#646b79',
  },
  dark: {
    '--page': '#0f1115',
    '--mantine-color-error': '#ffa8a8',
    '--raised': 'none',
    '--floating': '0 8px 28px rgb(0 0 0 / 60%)',
    '--track': '#2a2f38',
    '--hover': '#1b1f26',
    '--accent-soft': '#20284a',
    '--accent-ink': '#c4d0ff',
    '--soft': '#262b34',
    '--soft-ink': '#b6bcc7',
    '--wait-soft': '#3d3216',
    '--wait-ink': '#ffd98a',
    '--yes-soft': '#12331f',
    '--yes-ink': '#8be0ad',
    '--no-soft': '#43201f',
    '--no-ink': '#ffb3ae',
    '--ceiling': '#ff8787',
    '--bar': '#6c8cff',
    '--bar-little': '#f5b544',
    '--bar-none': '#5a2524',
    '--mantine-color-anchor': '#a5b8ff',
    '--mantine-color-default-border': '#2a2f38',
    '--mantine-color-default-hover': '#1d2129',
    '--mantine-color-dimmed': '#a6adba',
    '--mantine-color-placeholder': '#8f96a3',
  },
})
