/**
 * The page is in English, and so are its dates: the first kind of English that the browser lists. `en-US@posix`, which
 * some list, is none.
 */
export const dateLocale =
  navigator.languages.find((each) => /^en(?:-[a-z]{2})?$/i.test(each)) ?? 'en-GB'

/** Numbers are as the fields and the API read them: `1,234.5`. Elsewhere 1.234 is a thousand times as much. */
export const numberLocale = 'en'
