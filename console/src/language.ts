/**
 * Where the locale is C, Chromium's language is `en-US@posix`, which Intl refuses; uPlot gives it to Intl
 * as soon as it is loaded. Imported before everything else, this puts the one in its place that Intl uses.
 */

try {
  Intl.getCanonicalLocales(navigator.language)
} catch {
  const { locale } = new Intl.NumberFormat().resolvedOptions()
  Object.defineProperty(navigator, 'language', { value: locale })
}

export {}
