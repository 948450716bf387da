/** What stands in the built index.html where each response has a nonce of its own. */
export const noncePlaceholder = 'nonce-of-the-response'
