/** Settings for tests that ask in a loop until something is so. */
export const noRateLimits = { API_RATE_LIMIT: 'off', API_RATE_LIMIT_ADDRESS: 'off' }
