/**
 * A reason not to start that is the person's to mend. Its message is shown as it is, without a
 * stack: a sentence that names what is wrong and what to do.
 */
export class StartError extends Error {
  override readonly name = 'StartError'
}
