/** Settings for tests that poll the API. */
export const noRateLimits = { API_RATE_LIMIT: 'off' }
