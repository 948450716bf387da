/**
 * A reason not to start that the user can fix. Its message is shown without a stack: it names the
 * problem and what to do.
 */
export class StartError extends Error {
  override readonly name = 'StartError'
}
