/** The placeholder in the built index.html for each response's own nonce. */
export const noncePlaceholder = 'nonce-of-the-response'
