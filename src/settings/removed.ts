/**
 * Settings of earlier versions, each with what to do instead. A start with one of them fails, because
 * ignoring it would change what the service does without a word.
 */
export const removedSettings: Readonly<Record<string, string>> = {
  METER_MESSAGES: 'add messages to METER_PATHS',
  WORKERS: 'run several processes that share REDIS_URL (docs/run.md, "Several cores")',
}
