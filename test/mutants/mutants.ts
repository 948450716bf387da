// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the sources hold templates
/**
 * Small faults, each of which some test must detect: a line of the source, its replacement, and the
 * tests to run. A mutant that survives shows a promise without a test.
 */

export interface Mutant {
  /** Below src; of dev, beside it, it begins with `../`. */
  readonly file: string
  /** Text that occurs in the file exactly once. */
  readonly find: string
  readonly replace: string
  /** Below test. */
  readonly tests: readonly string[]
}

function mutants(
  file: string,
  tests: readonly string[],
  changes: readonly (readonly [find: string, replace: string])[],
): readonly Mutant[] {
  return changes.map(([find, replace]) => ({ file, tests, find, replace }))
}

export const allMutants: readonly Mutant[] = [
  ...mutants(
    'runtime/single-flight.ts',
    ['runtime/single-flight.test.ts'],
    [
      ['getOrAdd(flights, key,', 'getOrAdd(new Map(), key,'],
      ['.finally(() => flights.delete(key))', ''],
    ],
  ),
  ...mutants(
    'runtime/bounded-map.ts',
    ['runtime/bounded-map.test.ts'],
    [
      ['this.#young.size >= this.#half', 'false'],
      ['if (old !== undefined) this.set(key, old)', ''],
    ],
  ),
  ...mutants(
    'runtime/fair-limiter.ts',
    ['runtime/fair-limiter.test.ts'],
    [
      ['if (oneEach) busy.add(next.owner)', ''],
      ['if (busy.delete(next.owner)) queue.defer(next.owner)', 'busy.delete(next.owner)'],
      ['if (!isRefused) await work()', 'await work()'],
    ],
  ),
  ...mutants('runtime/mutex.ts', ['runtime/mutex.test.ts'], [['last.then(work, work)', 'work()']]),
  ...mutants(
    'runtime/loop.ts',
    ['runtime/loop.test.ts'],
    [
      ['Math.min(maxMs, ', '('],
      ['      failures = 0\n', ''],
    ],
  ),
  ...mutants(
    'models/rules/compile-subscription.ts',
    ['models/rules/compile-subscription.test.ts'],
    [
      ['if (tenant?.unreadable !== undefined)', 'if (false)'],
      ['if (costly !== undefined && billingRate === undefined)', 'if (false)'],
      ['if (each === undefined || attribution.organizationId)', 'if (true)'],
    ],
  ),
  ...mutants(
    'models/rules/reading/parse-resource.ts',
    ['kinds/resources.test.ts', 'kinds/limits.test.ts'],
    [
      ['models?.every(', '(models ?? []).every('],
      ['check: ({ spec }) => strangersIn(spec)', 'check: () => []'],
      ['{ salvage: salvageTenant }', '{}'],
      ['group !== undefined || isMisspeltTenant(apiVersion, named)', 'group !== undefined'],
      ['if (problems.length === 0) modelRefs', 'if (true) modelRefs'],
      ['problems.push({ ...problem, isMild })', 'problems.push(problem)'],
      ['!losesLimits(problem.path)', 'true'],
      ["(path.length === 1 && path[0] === 'spec') ||", ''],
    ],
  ),
  ...mutants(
    'models/rules/reading/limit-fields.ts',
    ['kinds/limits.test.ts'],
    [
      ["= ['limits', 'calendar']", "= ['limits']"],
      ['open.push(inside)', ''],
    ],
  ),
  ...mutants(
    'kubernetes/ended-pods.ts',
    ['kubernetes/ended-pods.test.ts'],
    [['if (await hasEnded(pod, signal)) ended', 'ended']],
  ),
  ...mutants(
    'models/sources/pipeline.ts',
    ['models/sources/pipeline.test.ts'],
    [
      [
        'waiting === undefined ? ask() : askOrRest()',
        'waiting === undefined ? ask() : delay(retryMs)',
      ],
      ['ask().catch(() => rest)', 'ask()'],
      ['      waiting = undefined\n', ''],
    ],
  ),
  ...mutants(
    'models/sources/list-files.ts',
    ['models/sources/resource-folder.test.ts', 'models/sources/last-good.test.ts'],
    [
      ['${ctimeNs} ', ''],
      ['if (isBelow && ', 'if (false && '],
    ],
  ),
  ...mutants(
    'models/sources/resource-folder.ts',
    ['models/sources/resource-folder.test.ts', 'models/sources/last-good.test.ts'],
    [
      ['const isTenant = before.resources.some(', 'const isTenant = [].some('],
      ['isUnknown: isFirst', 'isUnknown: true'],
    ],
  ),
  ...mutants(
    'models/sources/unreadable-tenant.ts',
    ['models/sources/resource-folder.test.ts'],
    [
      ['if (!isLimitedTenant(second) || ', 'if (true || '],
      ['limits, calendar, unreadable]', 'limits]'],
    ],
  ),
  ...mutants(
    'formats/unknown-fields.ts',
    ['kinds/limits.test.ts'],
    [['isWaiting && matters(field)', 'false']],
  ),
  ...mutants(
    'models/sources/documents.ts',
    ['kinds/limits.test.ts'],
    [
      ['return isNamed && meant', 'return false && meant'],
      ['Number(!!a.isMild) - Number(!!b.isMild)', 'Number(a === b)'],
    ],
  ),
  ...mutants(
    'formats/fields.ts',
    ['kinds/resources.test.ts'],
    [['if (tooMany && !schema.cut)', 'if (false)']],
  ),
  ...mutants(
    'usage/ledger/postgres/reader.ts',
    ['dev/demo/postgres-usage.test.ts'],
    [['onlyReal ? sql`and not demo`', 'onlyReal ? sql``']],
  ),
  ...mutants(
    '../dev/demo/postgres-usage.ts',
    ['dev/demo/postgres-usage.test.ts'],
    [['id: digest128(`demo ${row.id}`), ', '']],
  ),
  ...mutants(
    'identity/oidc/key-source.ts',
    ['identity/oidc/provider.test.ts'],
    [['keys.filter(isObject)', 'keys']],
  ),
  ...mutants(
    'admin/operation/drain.ts',
    ['admin/operation/drain.test.ts'],
    [
      ['  await untilRead(server)\n', ''],
      ['before < accepted && ', 'before < 0 && '],
      ['if (server.listening) await delay(', 'void ('],
      ["    response.setHeader('connection', 'close')\n", ''],
    ],
  ),
  ...mutants(
    'admin/http/require-administrator.ts',
    ['admin/http/require-administrator.test.ts'],
    [['if (await isAdmin(caller)) return', 'if (!(await isAdmin(caller))) return']],
  ),
  ...mutants(
    'admin/http/rate-limit-key.ts',
    ['admin/http/rate-limit.test.ts'],
    [
      ['`${by} ${user}`', 'user'],
      [
        "caller.by === 'key' ? `key ${caller.keyId}` : rateLimitKey(caller)",
        'rateLimitKey(caller)',
      ],
    ],
  ),
  ...mutants(
    'keys/postgres-api-keys.ts',
    ['admin/keys/idempotency-key.test.ts'],
    [
      ['row.is_replaceable ? row.key_hash : []', '[]'],
      ['!row.is_replaceable || ', 'true || '],
    ],
  ),
  ...mutants(
    'keys/key-uses.ts',
    ['admin/keys/idempotency-key.test.ts'],
    [['for no key update skip locked\n    )\n    update', 'for no key update\n    )\n    update']],
  ),
  ...mutants(
    'keys/key-lookups.ts',
    ['keys/key-lookups.test.ts'],
    [
      ["key && 'lockedId' in key", "key && 'lockedId' in key && false"],
      ['monotonic() - lookup.since < lockedMs', 'true'],
    ],
  ),
  ...mutants(
    'keys/use-recorder.ts',
    ['keys/use-recorder.test.ts'],
    [['Math.abs(instant - before) < noteEveryMs', 'instant - before < noteEveryMs']],
  ),
  ...mutants(
    'grpc/http2/stream.ts',
    ['grpc/http2/late-resets.test.ts'],
    [
      ['if (!this.#ended) this.takeBack()', ''],
      ['if (!this.#ended) this.takeBack()', 'this.takeBack()'],
    ],
  ),
  ...mutants(
    'extauthz/check.ts',
    ['extauthz/check-limits.test.ts'],
    [['    context.call?.takeBack?.()\n', '']],
  ),
  ...mutants(
    'ratelimit/holds/refused-calls.ts',
    ['ratelimit/holds/refused-calls.test.ts'],
    [
      [' || outage.test(error.message)', ''],
      ['if (monotonic() - refusedAt >= calmMs) ', ''],
    ],
  ),
  ...mutants(
    'admin/http/authenticate-api.ts',
    ['admin/keys/key-reach.test.ts'],
    [
      ['if (capsOf(caller)?.networks === undefined) return', 'if (caller) return'],
      ['gatewayAddressOf(request, trusts, trustedHops)', 'addressOf(request)'],
      ['      admit(request, reply)\n    }\n    throw error', '    }\n    throw error'],
    ],
  ),
  ...mutants(
    'keys/rules/caps-of-caller.ts',
    ['admin/keys/key-reach.test.ts'],
    [
      ["caller.caps !== undefined || reach === 'self'", "reach === 'self'"],
      ["caller.caps !== undefined || reach === 'self'", 'caller.caps !== undefined'],
    ],
  ),
  ...mutants(
    'identity/listing-seal.ts',
    ['identity/listing-seal.test.ts'],
    [
      ["timingSafeEqual(Buffer.from(seal, 'base64url'), expected)", 'true'],
      ['JSON.stringify([address, authorization, at])', 'JSON.stringify([address, at])'],
      ["if (at === '' || Math.abs(now - Number(at)) > validMs) return undefined", ''],
    ],
  ),
  ...mutants(
    'formats/headers.ts',
    ['formats/headers.test.ts'],
    [
      ['Number(port) > maxPort', 'Number(port) < 0'],
      ['hop < hops', 'hop <= hops'],
      ['if (end <= 0) return undefined', ''],
    ],
  ),
  ...mutants(
    'decide/access-matrix.ts',
    ['decide/access-matrix.test.ts'],
    [
      ['offset - passed', 'offset'],
      ['only?.has(key) ?? true', 'true'],
    ],
  ),
  ...mutants(
    'cluster/rules/enforcement.ts',
    ['cluster/rules/enforcement.test.ts'],
    [
      [
        'unreportedMs === undefined || unreportedMs > silentMs',
        'unreportedMs !== undefined && unreportedMs > silentMs',
      ],
      ['found?.server === server && isSame(found)', 'found !== undefined && isSame(found)'],
      [
        "return digest === (kind === 'ModelAuthPolicy' ? access : limits)",
        'return digest === access',
      ],
      ["if (envoy === 'no answer') return 'no answer from the Envoy of'", ''],
      ['isUnknown ||= isSilent(process)', 'isUnknown &&= isSilent(process)'],
      ['if (reports.length === 0) {', 'if (reports.length < 0) {'],
    ],
  ),
  ...mutants(
    'formats/lists.ts',
    ['cluster/rules/policies.test.ts'],
    [['if (names.length > max) names.pop()', '']],
  ),
  ...mutants(
    'cluster/rules/policies.ts',
    ['cluster/rules/policies.test.ts'],
    [
      ['for (const key of new Set(policy.modelKeys)) {', 'for (const key of policy.modelKeys) {'],
      [
        'return [name, deleting, owner, priority, attribution, admission, notifyAt]',
        'return [name, owner, priority, attribution, admission, notifyAt]',
      ],
      ['for (const key of before.models.keys()) if (!compared.models.has(key)) stale.add(key)', ''],
    ],
  ),
  ...mutants(
    'cluster/rules/object-status.ts',
    ['cluster/rules/object-status.test.ts'],
    [
      ['.toSorted((a, b) => Number(a.ready) - Number(b.ready))', ''],
      ['if (bytesOf(entries) <= maxListBytes) return entries', 'return entries'],
    ],
  ),
  ...mutants(
    'models/rules/original/external-models.ts',
    ['models/rules/original/external-models.test.ts'],
    [
      ['!names.has(key) && !unread.has(`ModelRef/${key}`)', '!names.has(key)'],
      ['credential: own.credential ?? server.credential', 'credential: server.credential'],
    ],
  ),
  ...mutants(
    'cluster/rules/generated-policies.ts',
    ['cluster/rules/generated-policies.test.ts'],
    [
      [
        "return { type, status: 'False', reason: 'NotAccepted', message }",
        "return { type, status: 'True', reason: 'NotAccepted', message }",
      ],
      [
        'if (enforcedCondition !== undefined) conditions.push(enforcedCondition(policies, kind))',
        '',
      ],
    ],
  ),
  ...mutants(
    'decide/access.ts',
    ['decide/access.test.ts'],
    [
      ['if (model.users.has(caller.user)) return true', ''],
      ['if (model.groups.has(group)) return true', 'return true'],
    ],
  ),
  ...mutants(
    'decide/past-refusal.ts',
    ['admin/explain/list-own-refusals.test.ts'],
    [
      ['if (caller?.user !== user) return false', ''],
      [
        "return keyId === undefined || (caller.by === 'key' && caller.keyId === keyId)",
        'return true',
      ],
    ],
  ),
  ...mutants(
    'cluster/shared-refusals.ts',
    ['cluster/shared-refusals.test.ts'],
    [['refusals.filter((each) => !whose || isRefusalOf(each, whose))', 'refusals']],
  ),
  ...mutants(
    'models/rules/find-backend.ts',
    ['models/rules/find-backend.test.ts'],
    [
      [
        'const isDirect = rule.isPlain && !rule.isFiltered && others.length === 0',
        'const isDirect = true',
      ],
      [
        'return backend.isService && backend.namespace === metadata.namespace ? backend : undefined',
        'return backend.isService ? backend : undefined',
      ],
      ['if (first?.refusal !== undefined) {', 'if (first === undefined) {'],
      ['return fitting.find(({ isSecure }) => isSecure) ?? fitting[0]', 'return fitting[0]'],
      [
        '({ gateway, refusal }) => gateway !== internalGateway && refusal === undefined,',
        '() => true,',
      ],
      [
        "  return isUrl(url) && isUrl(`http://${named.includes(':') ? `[${named}]` : named}`)",
        '  return true',
      ],
    ],
  ),
  ...mutants(
    'gateway/cluster-file.ts',
    ['gateway/cluster-file.test.ts'],
    [
      [
        'if (written?.name === name && isDeepStrictEqual(clusters, written.clusters)) return',
        'if (written !== undefined && isDeepStrictEqual(clusters, written.clusters)) return',
      ],
    ],
  ),
  ...mutants(
    'gateway/cluster-waits.ts',
    ['gateway/cluster-waits.test.ts'],
    [
      ['since: Infinity', 'since: 0'],
      ['0 : startTimeoutMs', '0 : timeoutMs'],
    ],
  ),
  ...mutants(
    'decide/request-hold.ts',
    ['extauthz/check-limits.test.ts'],
    [["kind === 'concurrency'", 'false']],
  ),
  ...mutants(
    'decide/decide.ts',
    ['decide/decide.test.ts'],
    [
      ["  { name: 'access', step: checkAccess },\n", ''],
      ["  { name: 'backend', step: checkBackend },\n", ''],
      ["  { name: 'operation', step: checkOperation },\n", ''],
    ],
  ),
  ...mutants(
    'decide/steps/credential.ts',
    ['decide/decide.test.ts'],
    [["if (caller.by === 'key' || tokensOpen) return undefined", 'return undefined']],
  ),
  ...mutants(
    'decide/steps/subscription.ts',
    ['decide/decide.test.ts'],
    [
      [
        "if (!isHealthySubscription(selected)) return denySubscription('model_unhealthy', context)",
        '',
      ],
      [
        "const hidden = error === 'not_found' && name !== undefined",
        "const hidden = error === 'not_found' && name === undefined",
      ],
      ['if (capsOf(caller) !== undefined) return refusal\n', ''],
    ],
  ),
  ...mutants(
    'decide/name-lookup.ts',
    ['decide/decide.test.ts'],
    [
      ['  if (usable.length < 2) return usable[0]', '  return usable[0]'],
      ['return covered ?? {', 'return {'],
    ],
  ),
  ...mutants(
    'decide/name-lookup.ts',
    ['models/rules/served-names.test.ts'],
    [
      ['if (declared !== undefined) return pickDeclared', 'if (declared) pickDeclared'],
      ['if (mayCallModel(asking.caller, model)) usable', 'usable'],
      ['return usable.length < 2 ? usable[0] :', 'return usable[0] ??'],
      ['&& mayUseModel(caller, found) ?', '?'],
    ],
  ),
  ...mutants(
    'decide/steps/limits.ts',
    ['decide/decide.test.ts'],
    [['if (last === undefined) return', 'if (last !== undefined) return']],
  ),
  ...mutants(
    'decide/limit-message.ts',
    ['decide/limit-message.test.ts'],
    [
      ['if (!showsFigures(limit)) {', 'if (used === -1) {'],
      ['> longestWaitS) return what', '> 0) return what'],
      ["origin === 'subscription' && !capsOf(grant.caller)", "origin === 'subscription'"],
    ],
  ),
  ...mutants(
    'decide/steps/model.ts',
    ['models/rules/served-names.test.ts'],
    [["return 'key' in left ? left :", "return 'key' in left ? left : denyAmbiguous(left, '') ??"]],
  ),
  ...mutants(
    'ratelimit/rules/increases.ts',
    ['ratelimit/rules/increases.test.ts'],
    [
      ['until > now', 'until > 0'],
      ['found.limit <= limit.limit', 'false'],
    ],
  ),
  ...mutants(
    'admin/increases/increases.ts',
    ['admin/increases/increases.test.ts'],
    [['userInLines(user) === userInLines(createdBy)', 'false']],
  ),
  ...mutants(
    'admin/increases/limit-requests.ts',
    ['admin/increases/limit-requests.test.ts'],
    [
      ['userInLines(asked.user) === userInLines(by)', 'false'],
      ['userInLines(asked.user)', 'asked.user'],
      ['readLimitFigure(kind, limit) === request.grantedLimit', 'true'],
      ['readUntilInSeconds(until) === request.grantedUntil', 'true'],
    ],
  ),
  ...mutants(
    'admin/models/list-models.ts',
    ['admin/models/list-models.test.ts'],
    [
      [
        'candidateModels(name, asking, snapshot).find((model) => silent.has(model))',
        '[...silent][0]',
      ],
      ['silent.delete(model)', ''],
    ],
  ),
  ...mutants(
    'admin/increases/limit-requests.ts',
    ['admin/increases/limit-requests.test.ts'],
    [['if (showsFigures(limit)) ', '']],
  ),
  ...mutants(
    'store/postgres/sql.ts',
    ['admin/increases/increases.test.ts', 'admin/keys/idempotency-key.test.ts'],
    [['least(${new Date(now)}::timestamptz, now())', '${new Date(now)}::timestamptz']],
  ),
  ...mutants(
    'usage/ledger/postgres/partitions.ts',
    ['usage/ledger/postgres/partitions.test.ts'],
    [['(await isInUse(transaction, each, name, oldest))', 'false']],
  ),
  ...mutants(
    'usage/limit-requests/postgres-limit-requests.ts',
    ['admin/increases/limit-requests.test.ts'],
    [["if (open.state !== 'open') return open", '']],
  ),
  ...mutants(
    'extauthz/check-limits.ts',
    ['extauthz/check.test.ts'],
    [
      [
        'thenOrNow(states, (read) => enforceLimits(grant, read, now))',
        'thenOrNow(states, () => grant)',
      ],
    ],
  ),
  ...mutants(
    'decide/subscription-selection.ts',
    ['decide/subscription-selection.test.ts'],
    [
      ["if (!mayUseModel(person, found)) return { error: 'access_denied' }", ''],
      ["if (!includes(found, model)) return { error: 'model_not_in_subscription' }", ''],
      ["if (only !== undefined) return { error: 'multiple_subscriptions' }", ''],
      [
        '=== requested.slice(0, slash) ? named : undefined',
        '=== requested.slice(0, slash) ? named : named',
      ],
      ['b.priority - a.priority', 'a.priority - b.priority'],
      ['b.maxLimit - a.maxLimit', 'a.maxLimit - b.maxLimit'],
      [
        "(phase === 'Active' || phase === 'Degraded') && !resource",
        "phase === 'Active' && !resource",
      ],
    ],
  ),
  ...mutants(
    'ratelimit/rules/estimates/admit.ts',
    ['ratelimit/rules/estimates/admit.test.ts'],
    [
      ['(limit) * (1 + overshoot)', '(limit) * (1.1 + overshoot)'],
      ['- Number(limit)) - held.most', '- Number(limit))'],
      ['Number(subtractExact(limit, used))', 'Number(limit) - Number(used)'],
      ['room.used >= room.limit)', 'room.used > room.limit)'],
      ['room.held.count === 0 ? !mayPass : !fits', '!fits'],
      ['canLimitOutput || !expected.isSeveral || ', 'true || '],
      ['pooled <= leftOf(room) && ', ''],
      ['(factors?.grain ?? 1) ** 2 * ', ''],
      ['Math.min(Math.ceil(beyondRoom), ', 'Math.max(Math.ceil(beyondRoom), '],
      ['canLimitOutput && ceiling < expected.least', 'false'],
    ],
  ),
  ...mutants(
    'ratelimit/rules/estimates/admit.ts',
    ['extauthz/check-limits.test.ts'],
    [['return Math.max(needed, share)', 'return share']],
  ),
  ...mutants(
    'ratelimit/rules/estimates/estimator.ts',
    ['extauthz/check-limits.test.ts', 'ratelimit/rules/estimates/estimator.test.ts'],
    [
      ['isSeveral: choices > 1', 'isSeveral: false'],
      ['Math.min(2 * bytesOfToken, ', 'Math.max(0, '],
    ],
  ),
  ...mutants(
    'ratelimit/rules/estimates/log-histogram.ts',
    ['ratelimit/rules/estimates/estimator.test.ts'],
    [['cut ? this.shape.shares : undefined', 'undefined']],
  ),
  ...mutants(
    'ratelimit/rules/estimates/decaying-sums.ts',
    ['ratelimit/rules/estimates/decaying-sums.test.ts'],
    [
      ['this.#unit /= this.#decay', 'this.#unit *= this.#decay'],
      ['this.#count -= count', 'this.#count = 0'],
    ],
  ),
  ...mutants(
    'ratelimit/estimates/postgres-learned-sums.ts',
    ['ratelimit/estimates/share-learned-sums.test.ts'],
    [['delta.kept < negligible ? 0 : delta.kept', 'delta.kept']],
  ),
  ...mutants(
    'ratelimit/rules/counted-limits.ts',
    ['ratelimit/rules/counter.test.ts'],
    [['limit.limit < earlier.limit', 'limit.limit > earlier.limit']],
  ),
  ...mutants(
    'ratelimit/rules/charged-limits.ts',
    ['ratelimit/rules/counter.test.ts'],
    [
      ["charged.per === 'key' ? whose.keyId", "charged.per === 'key' ? whose.user"],
      ["isOfKey ? `@${keyId}` : ''", "isOfKey ? keyId : ''"],
    ],
  ),
  ...mutants(
    'ratelimit/rules/counter.ts',
    ['ratelimit/rules/counter.test.ts'],
    [
      ['if (at < state.resetsAt)', 'if (at <= state.resetsAt)'],
      ['isWindowless(counter)', 'false'],
    ],
  ),
  ...mutants(
    'ratelimit/rules/limit.ts',
    ['ratelimit/rules/counter.test.ts', 'decide/decide.test.ts'],
    [
      ['rest > held ? subtractExact(rest, held) : 0', 'rest'],
      ['remaining === 0 &&', 'remaining <= 1 &&'],
      ['state.resetsAt > last.resetsAt', 'state.resetsAt < last.resetsAt'],
    ],
  ),
  ...mutants(
    'usage/rules/usage.ts',
    ['usage/rules/usage.test.ts'],
    [
      ['return input || output ? undefined : total', 'return total'],
      ['bounded(input + output + estimated)', 'bounded(estimated)'],
      ['status >= 200 && status <= 299', 'status >= 200 && status <= 399'],
      ['(value as number) >= 0', '(value as number) > 0'],
      ['one + (other ?? 0)', 'one'],
      ['Math.max(one, other)', 'Math.min(one, other)'],
    ],
  ),
  ...mutants(
    'ratelimit/rules/limit-headers.ts',
    ['ratelimit/rules/limit-headers.test.ts'],
    [
      ['Math.max(1, Math.ceil((instant - now) / 1_000))', 'Math.floor((instant - now) / 1_000)'],
      ['return share < 0', 'return share > 0'],
      ['a.resetsAt > b.resetsAt', 'a.resetsAt < b.resetsAt'],
      ["=== 'cost' ? !showsFigures(state.limit) :", "=== 'cost' ? false :"],
    ],
  ),
  ...mutants(
    'keys/rules/caps-of-caller.ts',
    ['keys/rules/compiled-caps.test.ts'],
    [
      ['(address !== undefined && isInAnyNetwork', '(address === undefined || isInAnyNetwork'],
      ['?.models?.has(modelKey) !== false', '?.models?.has(modelKey) !== true'],
    ],
  ),
  ...mutants(
    'keys/rules/compiled-caps.ts',
    ['keys/rules/compiled-caps.test.ts'],
    [
      ['calendar !== last', 'false'],
      ["hasCostLimit ? ',\"key_cost_limit\":true' : ''", "''"],
      ['model === undefined || told.has(model) ? model', 'model === undefined ? model'],
    ],
  ),
  ...mutants(
    'kinds/limits.ts',
    ['keys/rules/compiled-caps.test.ts'],
    [["of === 'cost' && enforce", "of === 'cost'"]],
  ),
  ...mutants(
    'decide/steps/budget.ts',
    ['keys/rules/compiled-caps.test.ts'],
    [
      ['!isPriced && ', 'false && '],
      ['!hasCostLimit && !keyLimits?.hasCostLimit', '!hasCostLimit'],
    ],
  ),
  ...mutants(
    'keys/rules/key-limits.ts',
    ['keys/rules/key-caps.test.ts'],
    [
      ['has.limit > had.limit', 'false'],
      ['had.enforce && !has.enforce', 'false'],
      ['modelsIn(has) !== modelsIn(had)', 'false'],
    ],
  ),
  ...mutants(
    'keys/rules/key-caps.ts',
    ['keys/rules/key-caps.test.ts'],
    [
      ['[...findUnknownFields(caps, schema), ...problems]', 'problems'],
      ['same.limit > limit', 'same.limit >= limit'],
      ['before[name] && !next[name]', 'false'],
      ['if (repeated >= 0)', 'if (false)'],
      ['? stored : closedCaps', '? stored : {}'],
    ],
  ),
  ...mutants(
    'formats/cidr.ts',
    ['formats/cidr.test.ts'],
    [
      ['own <= 0 ? 0', 'own < 0 ? 0'],
      ['outer.bits <= inner.bits', 'outer.bits >= inner.bits'],
      ['byte > 255', 'byte > 256'],
      ['digits > 0 && byte === 0', 'false'],
    ],
  ),
  ...mutants(
    'keys/rules/key-lifetime.ts',
    ['keys/rules/key-lifetime.test.ts'],
    [
      ['lifetimeMs > maximumMs', 'lifetimeMs >= maximumMs'],
      ['if (!(lifetimeMs > 0))', 'if (lifetimeMs < 0)'],
      ['ephemeral ? ephemeralMaximumMs :', '!ephemeral ? ephemeralMaximumMs :'],
    ],
  ),
  ...mutants(
    'formats/time.ts',
    ['formats/time.test.ts'],
    [
      ['windowMs <= maxWindowMs', 'windowMs <= 2 * maxWindowMs'],
      ['h: hourMs', 'h: 360_000'],
    ],
  ),
  ...mutants(
    'keys/rules/api-key.ts',
    ['keys/rules/api-key.test.ts'],
    [
      ['key.length > maxKeyLength ||', ''],
      ['!isBase62(key, markerEnd + 1, idEnd) ||', ''],
      ['if (!endsInChecksum(key)) return undefined', ''],
      ['} else if (!markers.accepted.has(marker)) {', '} else if (marker === "") {'],
      ['`${id}\\0${secret}`', '`${id}${secret}`'],
      ['now >= record.expiresAt', 'now > record.expiresAt'],
    ],
  ),
  ...mutants(
    'models/rules/original/tiers.ts',
    ['models/rules/original/tiers.test.ts'],
    [['tier.level <= best.level', 'tier.level < best.level']],
  ),
  ...mutants(
    'extauthz/check.ts',
    ['extauthz/check.test.ts'],
    [
      ['if (!known || error.cause !== undefined) deps.onFault(error)', ''],
      ['return fail(context, error)', 'throw error'],
      ['request, now, table && laneOf(decision))', 'request, now, undefined)'],
    ],
  ),
  ...mutants(
    'extauthz/table-offer.ts',
    ['extauthz/check.test.ts'],
    [
      ['      mark,\n', '      mark: table.mark,\n'],
      ['endsAt: remembered.until', 'endsAt: undefined'],
    ],
  ),
  ...mutants(
    'gateway/activation.ts',
    ['gateway/activation.test.ts'],
    [
      ['await table.suspend()', 'void table.suspend()'],
      ['      table.resume()\n', ''],
    ],
  ),
  ...mutants(
    'keys/revocations/revocation-follower.ts',
    ['keys/revocations/revocation-follower.test.ts'],
    [['        await forgetting\n', '']],
  ),
  ...mutants(
    'keys/revocations/revocation-follower.ts',
    ['keys/revocations/propagation.test.ts'],
    [
      ['        position = acknowledged\n', ''],
      [' || hashes.includes(increasesMarker)', ''],
    ],
  ),
  ...mutants(
    'models/rules/served-names.ts',
    ['models/rules/served-names.test.ts'],
    [
      ['    onChange()\n', ''],
      ['before?.isLlamaCpp === isLlamaCpp', 'before'],
      ['known?.of === of && known.edition === of.edition', 'known?.of === of'],
      [
        '      listing.servers.delete(server)\n      listing.edition += 1\n',
        '      listing.servers.delete(server)\n',
      ],
      ['          if (!servers.has(server)) continue\n', ''],
      ['        places.sort((a, b) => a - b)\n', ''],
    ],
  ),
  ...mutants(
    'table/process-table.ts',
    ['wiring/table.test.ts'],
    [['serving?.isServing() === true &&', 'serving !== undefined &&']],
  ),
  ...mutants(
    'usage/notices/notices.ts',
    ['usage/notices/notices.test.ts'],
    [
      ['if (isRequestLimit(limit)) continue', ''],
      ["scope === 'user' ? { user: use.user }", 'use.user ? { user: use.user }'],
    ],
  ),
  ...mutants(
    'extauthz/check-response.ts',
    ['extauthz/check-response.test.ts', 'extauthz/check.test.ts'],
    [
      ['now) <= maxRetryAfterS', 'now) < maxRetryAfterS'],
      ["denial.selection ?? 'unauthorized'", "'unauthorized'"],
      ['429: 8,', ''],
      ["denial.code === 'insufficient_quota' ? [noRetry]", 'denial.isBusy ? [noRetry]'],
      ["if (items !== '') putAllowed", "if (items === '') putAllowed"],
    ],
  ),
  ...mutants(
    'extauthz/allow-template.ts',
    ['extauthz/allow-template.test.ts', 'extauthz/check-response.test.ts'],
    [
      ["writer.string(5, 'authorization').string(5, 'x-api-key')", "writer.string(5, 'x-api-key')"],
      ['this.#dialect !== dialect ||', ''],
      ['mine.bodyNames !== grant.bodyNames ||', ''],
      ['mine.sentName !== grant.sentName ||', ''],
      ['mine.metered !== grant.metered ||', ''],
      ['mine.owningGroup !== grant.owningGroup ||', ''],
      ['mine.payer !== grant.payer ||', ''],
      ['if (this.#limits[i] !== states[i]?.limit) return false', ''],
      ['if (size >= maxSize) {', 'if (size > 2 * maxSize) {'],
      ['variants.length >= maxVariants', 'false'],
    ],
  ),
  ...mutants(
    'identity/authenticate.ts',
    ['identity/authenticate.test.ts'],
    [
      [
        'authorization !== undefined && fromBearer !== apiKey',
        'authorization !== undefined && fromBearer === apiKey',
      ],
      ['authorization !== undefined || looksLikeKey(apiKey) ? apiKey', 'true ? apiKey'],
      [
        'looksLikeKey(credential) ? deps.key : deps.token',
        'looksLikeKey(credential) ? deps.token : deps.key',
      ],
    ],
  ),
  ...mutants(
    'identity/authenticate.ts',
    ['identity/authenticate.test.ts'],
    [
      ["if (status === 'active') return undefined", 'if (status) return undefined'],
      ['Math.min(soonFrom, now', 'Math.max(0, now'],
    ],
  ),
  ...mutants(
    'identity/identity-token.ts',
    ['identity/identity-token.test.ts'],
    [
      ['const verify = ofIssuer ?? cluster', 'const verify = cluster ?? ofIssuer'],
      ["verdict === null ? 'refused' : 'ok'", "'ok'"],
    ],
  ),
  ...mutants(
    'identity/followed-file.ts',
    ['identity/token-file.test.ts'],
    [
      ['    if (differing % maxDiffering > 0) return\n', ''],
      ['      isReadable = false\n', '      isReadable = false\n      seen = signature\n'],
    ],
  ),
  ...mutants(
    'keys/postgres-api-keys.ts',
    ['admin/keys/rotate-api-key.test.ts'],
    [['${hash === undefined ? sql`` : sql`and key_hash = ${hash}`}', '']],
  ),
  ...mutants(
    'ratelimit/increases/postgres-increases.ts',
    ['admin/increases/increases.test.ts'],
    [['  await acquireLock(sql, advisoryLocks.increases)\n', '']],
  ),
  ...mutants(
    'admin/http/authenticate-api.ts',
    ['admin/http/rate-limit.test.ts'],
    [['const isOwn = request', 'request.isUnchecked = false\n    const isOwn = request']],
  ),
  ...mutants(
    'identity/oidc/provider.ts',
    ['identity/oidc/provider.test.ts'],
    [
      [' && !keys.isLost', ''],
      ['known?.provedBy === keys.generation && ', 'known !== undefined && '],
      ["requiredClaims: ['exp'],", ''],
      ['      algorithms,\n', ''],
      ['if (cty !== undefined || crit !== undefined)', 'if (crit !== undefined)'],
      ['(payload.exp as number) * 1_000', 'Number.POSITIVE_INFINITY'],
      ["if (type !== 'jwt' && type !== 'at+jwt')", 'if (false)'],
      ['await keys.doubt()', ''],
    ],
  ),
  ...mutants(
    'identity/oidc/key-source.ts',
    ['identity/oidc/key-source.test.ts'],
    [
      ['monotonic() - triedAt >= restMs && !end.signal.aborted', '!end.signal.aborted'],
      ['if (about.issuer !== issuer)', 'if (false)'],
      ['unavailableSince === undefined ? everyMs : cooldownMs', 'everyMs'],
      ['(unavailableSince !== undefined || keys === undefined)', 'keys === undefined'],
    ],
  ),
  ...mutants(
    'identity/oidc/claims.ts',
    ['identity/oidc/claims.test.ts'],
    [
      ['if (findClaim(claims, claim) !== value)', 'if (false)'],
      ['(claims.email_verified ?? true) !== true', '!claims.email_verified'],
      ['.filter((group) => !reserved.test(group))', ''],
      ['Object.hasOwn(claims, name) ? claims[name] : ', ''],
    ],
  ),
  ...mutants(
    'identity/oidc/authentication-configuration.ts',
    ['identity/oidc/authentication-configuration.test.ts'],
    [
      ['if (seen.has(issuer.url))', 'if (false)'],
      ['others.length > 0 ? undefined : readFields(jwt, provider', 'readFields(jwt, provider'],
      ['isTrustworthy(raw) && !/[?#]/.test(raw)', 'isTrustworthy(written)'],
      ['prefix: text() }', 'prefix: optional(text()) }'],
    ],
  ),
  ...mutants(
    'identity/oidc/configured-providers.ts',
    ['identity/oidc/configured-providers.test.ts'],
    [
      ['before?.text === text', 'before !== undefined'],
      ['if (next.has(one.issuer)) continue', ''],
    ],
  ),
  ...mutants(
    'identity/kubernetes/token-review.ts',
    ['identity/kubernetes/token-review.test.ts'],
    [
      ['status.authenticated !== true', 'false'],
      ['late ? graceMs : 0', 'graceMs'],
      ['believed.forget(hash)', ''],
    ],
  ),
  ...mutants(
    'identity/kubernetes/access-review.ts',
    ['identity/kubernetes/access-review.test.ts'],
    [
      [' && status.denied !== true', ''],
      [
        'JSON.stringify([user, [...new Set(groups)].sort()])',
        'JSON.stringify([user, groups.join()])',
      ],
    ],
  ),
  ...mutants(
    'kubernetes/lease-watch.ts',
    ['kubernetes/lease-watch.test.ts'],
    [
      ['if (asked - since < durationMs)', 'if (objects.has(key) && asked - since < durationMs)'],
      ['asked + 3 * everyMs', 'Number.POSITIVE_INFINITY'],
      ['seeLease(object, seen.get(key), respondedAt)', 'seeLease(object, undefined, respondedAt)'],
    ],
  ),
  ...mutants(
    'cluster/controller/apply.ts',
    ['cluster/controller/apply.test.ts'],
    [
      ['metadata: { resourceVersion, finalizers: others }', 'metadata: { finalizers: others }'],
      ['deletionTimestamp === undefined || ', ''],
      ['...nulls(before, (field) => !(field in status)), ', ''],
      ['if (Object.keys(gone).length > 0)', 'if (Object.keys(gone).length > 9)'],
    ],
  ),
  ...mutants(
    'decide/access.ts',
    ['decide/access.test.ts'],
    [
      ['if (!seen.has(subscription)) yield subscription', 'yield subscription'],
      ['users.get(person.user), ', ''],
    ],
  ),
  ...mutants(
    'usage/hold-follower.ts',
    ['usage/hold-follower.test.ts'],
    [
      ['if (mayHold(ended)) holds', 'if (ended.held) holds'],
      ['(estimate === undefined && !isRequestLimit(limit))', '!isRequestLimit(limit)'],
      ['if (held?.admittedAt) return true', ''],
      [' || now - response.endedAt >= holdLeaseMs', ''],
    ],
  ),
  ...mutants(
    'usage/settle.ts',
    ['usage/settle.test.ts'],
    [
      ['if (charge === undefined) return', ''],
      ["if (by === 'table') writer", 'writer'],
      ['charge.estimated > 0 ? undefined : charge.tokens', 'charge.tokens'],
      ['Math.min(behindMs, clock() - sinceMs)', 'clock() - sinceMs'],
    ],
  ),
  ...mutants(
    'models/model-health.ts',
    ['models/model-health.test.ts'],
    [
      ['if (at < last && last <= clock() + aheadMs) return', ''],
      ['if (at < last && last <= clock() + aheadMs) return', 'if (at < last) return'],
    ],
  ),
  ...mutants(
    'wiring/counters.ts',
    ['wiring/start-errors.test.ts'],
    [
      ['if (subscriptions > 0) {', 'if (subscriptions < 0) {'],
      ['noteCanRead(!isThere)', ''],
    ],
  ),
  ...mutants(
    'grpc/health.ts',
    ['grpc/health.test.ts'],
    [['isServing && !isDraining', 'isServing']],
  ),
  ...mutants(
    'operations/restrictions.ts',
    ['operations/restrictions.test.ts'],
    [
      ["if (method === 'POST' && makes.has(operation))", 'if (makes.has(operation))'],
      ['stored.test(operation) ||', ''],
      ['!isKnownOperation(operation, method) && mayBeStored', 'mayBeStored'],
      ['if (changes.has(method)) return true', ''],
      ["if (segments[0] !== 'v1') return true", ''],
      ["segment.replace(/\\..*$/, '')", 'segment'],
      ["name.replaceAll('_', ' ')", 'name'],
      ["i < segments.length - 1 || method !== 'POST'", 'i < segments.length - 1'],
      ["operation === '/v1/batches' && method === 'POST'", 'false'],
    ],
  ),
  ...mutants(
    'operations/restrictions.ts',
    ['operations/restrictions.test.ts'],
    [
      ['namesItsModel(model) && !opens(model, field)', 'namesItsModel(model)'],
      ['modelIds.length > 0 || server.upstreamModel !== undefined', 'modelIds.length > 0'],
      [
        'if (!opens(model, field)) return internalProblem',
        'if (namesItsModel(model)) return internalProblem',
      ],
      ["model.state !== 'shared'", "model.state === 'closed'"],
      ['if (isMetered) return problem', ''],
    ],
  ),
  ...mutants(
    'decide/steps/operation.ts',
    ['decide/decide.test.ts'],
    [
      ['name !== undefined && !mayName(name, model)', 'false'],
      ['target.modelKey !== undefined && !isUnread', 'target.modelKey !== undefined'],
      ["!name.includes('\\t') && ", ''],
    ],
  ),
  ...mutants(
    'decide/steps/operation.ts',
    ['decide/operation.test.ts'],
    [
      ['choices <= 1', 'choices <= 2'],
      ['usageOfAllAnswers ?? !', 'usageOfAllAnswers ?? '],
      ['problem !== undefined || choices <= 1', 'choices <= 1'],
    ],
  ),
  // What a line counts depends on nothing but the line and the resources.
  ...mutants(
    'usage/rules/line-charges.ts',
    ['usage/rules/line-charges.test.ts'],
    [
      ["if (state === 'running') return nothing", ''],
      ["isMetered && state === 'ended' ? chargeOf", 'true ? chargeOf'],
      ['isAtAdmission === true, tokenCountersOf', 'false, tokenCountersOf'],
      ['usage.held?.admittedAt || startedAt', 'usage.held?.admittedAt ?? startedAt'],
      ['isMetered || (usage.held?.admittedAt ?? 0) > 0', 'isMetered'],
      ['usage.chargesAdmission === true', 'false'],
      ['isRequest || isAtAdmission ?', 'isAtAdmission ?'],
    ],
  ),
  ...mutants(
    'usage/rules/line-charges.ts',
    ['journal/journal-line.test.ts', 'usage/ledger/feed.test.ts'],
    [["isMetered && state === 'ended' ? chargeOf", 'isMetered ? chargeOf']],
  ),
  ...mutants(
    'usage/ledger/verify.ts',
    ['cli/verify-usage.test.ts'],
    [
      ['subtractExact(one.journals, one.ledger)', 'one.journals'],
      ['addExact(row.total, row.weight)', 'row.weight'],
      ["sumOf('ledger') === sumOf('journals')", 'false'],
    ],
  ),
  ...mutants(
    'usage/ledger/moved-windows.ts',
    ['cli/verify-usage.test.ts'],
    [
      ['group.begin + halfDayMs', 'group.begin'],
      ['[row.first, row.last]', '[row.first]'],
    ],
  ),
  ...mutants(
    'ratelimit/rules/counter-key.ts',
    ['admin/usage/limits.test.ts'],
    [["group === namedUsersPool ? '' :", '']],
  ),
  ...mutants(
    'admin/usage/counters.ts',
    ['admin/usage/limits.test.ts'],
    [
      ['if (isOne && subject.user === undefined) requireOne(all)', ''],
      ['ofTenant.length > 0 ? ofTenant : all', 'ofTenant'],
    ],
  ),
  ...mutants(
    'ratelimit/rules/counted-limits.ts',
    ['ratelimit/rules/limit-headers.test.ts'],
    [['taken.test(name) ?', 'false ?']],
  ),
  ...mutants(
    'usage/rules/simulate.ts',
    ['admin/usage/simulate.test.ts'],
    [['pools.length > 1 ?', 'true ?']],
  ),
  ...mutants(
    'usage/rules/simulate.ts',
    ['usage/rules/simulate.test.ts'],
    [
      ['chargesAdmission ? atBegin : ', ''],
      ['window !== undefined && at < window.resetsAt', 'window !== undefined'],
      ['counters.set(counter.key, replayed)', ''],
    ],
  ),
  ...mutants(
    'admin/usage/limits.ts',
    ['admin/usage/limits.test.ts'],
    [['own.slice(0, maxLimits), showsFigures)', 'own.slice(0, maxLimits))']],
  ),
  ...mutants(
    'admin/explain/explain-view.ts',
    ['admin/explain/explain.test.ts'],
    [['whole || showsFigures(limit)', 'true']],
  ),
  ...mutants(
    'extauthz/check-limits.ts',
    ['extauthz/check-limits.test.ts'],
    [
      ['awayMs < briefOutageMs', 'awayMs < 0'],
      ['if (isBug(error)) throw error', ''],
      ['isReserving && request.isUnread && isSizeReadFromBody(request)', 'false'],
      ['if (first instanceof Promise) outages.end(() => holds.partitionsOf?.(asked) ?? [])', ''],
      [' || at - last.failedAt >= unaskedMs', ''],
      ["['', ...partitionsOf()]", "['']"],
      ["for (const each of ['', ...partitionsOf()]) open.delete(each)", 'open.clear()'],
    ],
  ),
  ...mutants(
    'decide/steps/limits.ts',
    ['extauthz/check-limits.test.ts'],
    [
      ['hold.problem ?? ', ''],
      ['if (least <= most) return undefined', 'return undefined'],
      ["if (outcome === 'spent')", "if (outcome !== 'spent')"],
      ['refuse(full, now + nextMs), isBusy: true', 'refuse(full, now + nextMs), isBusy: false'],
      ['refuse(scarcest, retryAt), isBusy: true', 'refuse(scarcest, retryAt), isBusy: false'],
    ],
  ),
  ...mutants(
    'ratelimit/holds/memory-holds.ts',
    ['ratelimit/holds/memory-holds.test.ts'],
    [
      ['if (repeated !== undefined) {', 'if (repeated === null) {'],
      ['if (found.repeats < 0) end(', 'end('],
      ["kind === 'tokens' ? used : addExact(used, pool.sums.count)", 'used'],
      ["if (kind === 'requests') return 'spent'", "if (kind === 'requests') return 'busy'"],
      ["if (outcome === 'held') outcome = 'busy'", ''],
      ['expire()\n    const targets', 'const targets'],
    ],
  ),
  ...mutants(
    'ratelimit/holds/windows.ts',
    ['ratelimit/holds/memory-holds.test.ts'],
    [
      ["kind === 'tokens' && charge === 'end' ? undefined : window", 'undefined'],
      ["kind === 'tokens' && charge === 'end' ? undefined : window", 'window'],
    ],
  ),
  ...mutants(
    'ratelimit/holds/redis-holds.ts',
    ['ratelimit/holds/redis-holds.test.ts'],
    [
      ['seen.known.some(({ isKnown }) => !isKnown)', 'false'],
      ['      if (!isWriter()) return\n', ''],
      ['      takeBack(subject, asked)\n      throw error', '      throw error'],
      ['      takeAllBack()\n      throw error', '      throw error'],
      ['          takeAllBack()\n          next', '          next'],
      ['=== subjects.at(-1) ? 0 : settlingMs', '=== subjects.at(-1) ? 0 : 0'],
      [
        'subjectHold(subject, next, ceiling)',
        'subjectHold(subject, next, Number.POSITIVE_INFINITY)',
      ],
      ["if (outcome !== 'spent') outcome =", 'outcome ='],
      [
        '    let seen = look()\n',
        '    let seen = look()\n    await undefined\n    seen.ended = partition.lastEnded(keys)\n',
      ],
    ],
  ),
  ...mutants(
    'ratelimit/rules/counter-key.ts',
    ['ratelimit/rules/counter-key.test.ts'],
    [
      ['key.slice(countedEnd + 1)', "key.slice(key.lastIndexOf('\\n') + 1)"],
      ['return `${subscription}\\n${model}', 'return `${model}'],
    ],
  ),
  ...mutants(
    'ratelimit/sums/counter-reads.ts',
    ['ratelimit/sums/sum-counters.test.ts'],
    [
      [
        'at: number): readonly WindowUsage[] {\n      readLines()\n',
        'at: number): readonly WindowUsage[] {\n',
      ],
    ],
  ),
  ...mutants(
    'ratelimit/counters.ts',
    ['ratelimit/sums/sum-counters.test.ts'],
    [
      [
        'isRequestLimit({ kind: limitKindOfKey(parts) })',
        "limitKindOfKey(parts) === 'concurrency'",
      ],
      [
        "if (resets === undefined) throw new ServiceError('store_unavailable')",
        'if (!resets) return',
      ],
    ],
  ),
  ...mutants(
    'ratelimit/rules/unreported.ts',
    ['ratelimit/rules/unreported.test.ts'],
    [
      ['if (textBytes === 0) return Math.ceil(bytes / streamBytesOfToken)', ''],
      ['if (isOfStream) return', 'if (false) return'],
    ],
  ),
  ...mutants(
    'settings/config.ts',
    ['settings/config.test.ts'],
    [['limit: 2 * read.apiRateLimit.limit', 'limit: 1e9']],
  ),
  ...mutants(
    '../envoy/lua/gate.lua',
    ['envoy/hits.test.ts'],
    [
      ['headers:remove("x-tollgate-cluster")', ''],
      ['if bearer and key then return nil end', ''],
    ],
  ),
  ...mutants(
    '../envoy/lua/table.lua',
    ['envoy/hits.test.ts'],
    [
      ['record.generation ~= head.generation or ', ''],
      ['or boot >= record.trusted_until ', ''],
      ['or real >= record.ends_at then', 'then'],
      ['used = used + added\n', ''],
      ['if not (used < limit / share) then', 'if not (used < limit) then'],
      ['if boot >= block.fresh_until then', 'if false then'],
      ['head.lease > boot + LONGEST_LEASE', 'false'],
      ['if math.abs(real - boot - head.clock) >= MOST_DRIFT then', 'if false then'],
    ],
  ),
  ...mutants(
    '../envoy/lua/table.lua',
    ['envoy/scripts.test.ts'],
    [
      ['  why_not(boot_ms(), now_ms(), 0)\n', ''],
      ['each.name[1] == second', 'true'],
      ['descriptor >= 0 and head.lease > boot\n', 'descriptor >= 0\n'],
    ],
  ),
  ...mutants(
    '../envoy/lua/lanes.lua',
    ['envoy/scripts.test.ts'],
    [['    if set_lock(mine, WRITE_LOCK) then', '    if true then']],
  ),
  ...mutants(
    '../envoy/lua/usage.lua',
    ['envoy/hits.test.ts'],
    [
      ['tokens and tokens > 0 and add_by_table(place, tokens, ended_at)', 'nil'],
      ['math.ceil(stream.bytes / 2)', '0'],
    ],
  ),
  ...mutants(
    '../envoy/lua/usage.lua',
    ['e2e/chunk-usage.test.ts'],
    [
      ['if stream.text_bytes > 0 then parts[#parts + 1]', 'if false then parts[#parts + 1]'],
      ['math.floor(place / reader.choices)', 'place'],
      ['if outputs.count == 1 then return end', ''],
      ['stream.counts_text or BEGINS_LINE[first] == true', 'true'],
      [` and sub(text, at - 18, at - 1) == '"encrypted_content'`, ''],
    ],
  ),
  ...mutants(
    '../envoy/lua/usage.lua',
    ['e2e/answers.test.ts'],
    [
      ['usage = usage_node(labels, fields, details, "", 2), index', 'index'],
      ['elseif has_more then\n', 'elseif false then\n'],
      ['elseif stream.removes and not reader.has_more then', 'elseif stream.removes then'],
    ],
  ),
  ...mutants(
    '../envoy/lua/usage.lua',
    ['e2e/messages.test.ts'],
    [['sums[place] = sums[place] + figure\n', 'sums[place] = figure\n']],
  ),
  ...mutants(
    'usage/rules/amounts.ts',
    ['usage/rules/amounts.test.ts'],
    [
      ['tokens - known.output', 'tokens'],
      ['cached = input', 'cached = token'],
      ['output = token', 'output = input'],
      ['+ 999n', ''],
      ['allInput - cacheWrite)', 'allInput)'],
    ],
  ),
  ...mutants(
    'extauthz/check-limits.ts',
    ['extauthz/check-limits.test.ts'],
    [['isAlways || (decision.isByTariff && hasCostLimit(decision))', 'isAlways']],
  ),
  ...mutants(
    'usage/ledger/limit-sums.ts',
    ['cli/verify-usage.test.ts'],
    [
      ['at < within.from || at >= within.to', 'false'],
      ["per === 'key' ? `key/${line.usage.keyId}` : resource", 'resource'],
    ],
  ),
  ...mutants('formats/money.ts', ['formats/money.test.ts'], [['unitsOfNano - 1n', '0n']]),
  ...mutants(
    'usage/rules/usage.ts',
    ['usage/rules/amounts.test.ts'],
    [
      [' && usage.hasCostLimit !== true', ''],
      ['tokens === 0 && usage.hasCostLimit', 'false'],
      ['known.output || rest', 'known.output ?? rest'],
    ],
  ),
  ...mutants(
    'usage/rules/usage.ts',
    ['usage/rules/line-charges.test.ts'],
    [['windows !== undefined && windows', 'limits.length > 0 && windows']],
  ),
  ...mutants(
    'usage/rules/usage.ts',
    ['ratelimit/rules/unreported.test.ts'],
    [
      ['Math.max(known.output ?? 0, rest)', 'rest'],
      ['known.output || rest', 'rest'],
      ['known.input || estimate.input', 'estimate.input'],
      ['(unusable || isCutShort(usage))', 'unusable'],
      ['estimate !== undefined && hasLeft', 'false'],
    ],
  ),
  ...mutants(
    'keys/cached-api-keys.ts',
    ['keys/cached-api-keys.test.ts'],
    [
      ["if (state === 'unavailable') return findDuringOutage(key)\n", ''],
      ['ageMs >= graceMs', 'ageMs >= 2 * graceMs'],
      ['now < key.trustedUntil', 'now < key.trustedUntil + 9 * reviewMs'],
      ["if (state === 'unconfirmed') return 'confirm'\n", ''],
      ['if (hashes.length > 0) onForgotten(hashes)', ''],
      ['    onForgotten(undefined)\n', ''],
      ["if (key?.status !== 'active' && known.has(hash)) onForgotten([hash])", ''],
    ],
  ),
  ...mutants(
    'keys/write-through.ts',
    ['keys/cached-api-keys.test.ts'],
    [['if (revoked !== undefined) evict(hashesOf([revoked]))', '']],
  ),
  ...mutants(
    'keys/revocations/lease.ts',
    ['keys/revocations/lease.test.ts'],
    [
      ['instant - renewedAt < leaseMs', 'instant - renewedAt < 2 * leaseMs'],
      ['wallMs > monotonicMs + suspendedMs ? wallMs : monotonicMs', 'monotonicMs'],
      ['if (now() - sentAt < leaseMs) failedAt', 'failedAt'],
      ['renewedAt = Math.max(renewedAt, sentAt)', 'renewedAt = now()'],
    ],
  ),
  // Windows are functions of time; of the invariants of decision 20, the first.
  ...mutants(
    'ratelimit/rules/windows.ts',
    ['ratelimit/rules/windows.test.ts'],
    [
      ['reset.at < at && reset.at > since', 'reset.at <= at && reset.at > since'],
      ['const phase = crc32(owner) % ms', 'const phase = 0'],
      ['(span.date ?? since)', 'since'],
    ],
  ),
  ...mutants(
    'ratelimit/rules/windows.ts',
    ['ratelimit/rules/windows.test.ts'],
    [
      ['at + zoneOffsetAt(zone, at) >= local', 'true'],
      ['if (at < end) return', 'return'],
      ['maxSpans = 3', 'maxSpans = 1'],
    ],
  ),
  // I2: sums and positions belong together.
  ...mutants(
    'journal/checkpoint.ts',
    ['journal/checkpoint.test.ts'],
    [
      ['await put(textOf(first))', ''],
      ['[sums[from + i] as ExactInt,', '[each.sum,'],
      ['? sum : String(sum)', '? sum : Number(sum)'],
      [
        'maxExact(known?.base ?? 0, exactFromJson(base) ?? 0)',
        'known?.base || (exactFromJson(base) ?? 0)',
      ],
      ['(numberOf(latest) ?? 0) + 1', 'numberOf(latest) ?? 0'],
      ['(numberOf(file) ?? number) < number', 'numberOf(file) !== number'],
    ],
  ),
  ...mutants(
    'journal/followed-files.ts',
    ['journal/follower.test.ts'],
    [
      ["one.isCopy = head !== '' && heads.has(head)", 'one.isCopy = false'],
      ['(position.get(head) ?? 0) <= size', 'true'],
    ],
  ),
  ...mutants(
    'journal/follower.ts',
    ['journal/follower.test.ts'],
    [
      ['one.isSkipping = end === 0', ''],
      ['else if (one.empty >= emptyOfMark) isMarked = true', ''],
    ],
  ),
  ...mutants(
    'journal/remove-saved.ts',
    ['journal/follower.test.ts'],
    [
      // I3: nothing is removed that was not saved.
      ['files.isLive(one) || (saved.get(head) ?? 0) < end', 'files.isLive(one)'],
      ['one.isRead ? Math.min(', 'false ? Math.min('],
      ['files.isLive(one) || (saved', '(saved'],
      ['gone.slice(0, -maxAbsent)', 'gone'],
    ],
  ),
  ...mutants(
    'ratelimit/sums/rebuild-sums.ts',
    ['ratelimit/sums/gateway-sums.test.ts', 'ratelimit/sums/schedules.test.ts'],
    [
      ['new Map(state.position.size > 0 ? state.position : begunAt)', 'new Map()'],
      ['rebuilt.replaceOwn(state.own)', ''],
    ],
  ),
  ...mutants(
    'ratelimit/sums/lost-use-recovery.ts',
    ['ratelimit/sums/gateway-sums.test.ts', 'ratelimit/sums/schedules.test.ts'],
    [
      // I8: what is adopted.
      ['if (!catchUp()) {', 'if (false) {'],
      ['    await noteBase(tally, base)\n', ''],
      ['if (base <= tally.base || !isWriter()) return', 'return'],
    ],
  ),
  ...mutants(
    'ratelimit/sums/gateway-sums.ts',
    ['ratelimit/sums/gateway-sums.test.ts', 'ratelimit/sums/schedules.test.ts'],
    [
      ['    if (!role.confirm()) return\n    tail.tidy', '    tail.tidy'],
      // I7: at a start all sums are sent.
      ['      shared.begin()\n', ''],
    ],
  ),
  ...mutants(
    'ratelimit/sums/writer-role.ts',
    ['ratelimit/sums/gateway-sums.test.ts', 'ratelimit/sums/schedules.test.ts'],
    [['isWriter && note(writers.isLast())', 'isWriter']],
  ),
  // Each line is told once, and what was read of files that are gone stays counted.
  ...mutants(
    'ratelimit/sums/writer-role.ts',
    ['ratelimit/sums/line-delivery.test.ts', 'ratelimit/sums/journal-faults.test.ts'],
    [['>= confirmAfterMs) renew()', '< 0) renew()']],
  ),
  ...mutants(
    'ratelimit/sums/gateway-sums.ts',
    ['ratelimit/sums/line-delivery.test.ts', 'ratelimit/sums/journal-faults.test.ts'],
    [
      ['      if (role.isWriter) delivery.savePosition(tail.position)\n', ''],
      [
        '    if (role.isWriter) report(() => options.onDelivered',
        '    report(() => options.onDelivered',
      ],
    ],
  ),
  ...mutants(
    'ratelimit/sums/line-tail.ts',
    ['ratelimit/sums/line-delivery.test.ts', 'ratelimit/sums/journal-faults.test.ts'],
    [['tally.sum = addExact(tally.sum, maxExact(0, subtractExact(own, ownUseOf(tally))))', '']],
  ),
  ...mutants(
    'ratelimit/sums/gateway-sums.ts',
    ['ratelimit/sums/gateway-sums.test.ts'],
    [['report(role.renewIfDue)', 'role.renewIfDue()']],
  ),
  ...mutants(
    'journal/line-delivery.ts',
    ['ratelimit/sums/line-delivery.test.ts'],
    [
      ['read() ?? new Map(position)', 'new Map(position)'],
      ['write(gap?.done ?? position)', 'write(gap?.done ?? new Map())'],
    ],
  ),
  ...mutants(
    'journal/copies.ts',
    ['journal/copies.test.ts'],
    [
      ['if (bytes === 0) await copies.begin(name)', ''],
      ['if (heads.has(await copies.headOf(name))) continue', ''],
      ['copy.write(piece, 0, bytes, to.bytes)', 'copy.write(piece, 0, bytes)'],
      ['if (size === undefined) mayLackFiles = true', ''],
    ],
  ),
  ...mutants(
    'journal/copy-folder.ts',
    ['journal/copies.test.ts'],
    [
      ['if (!own.equals(copy)) return 0', ''],
      ["head !== '' && (await headOf(name)) === head", 'false'],
    ],
  ),
  ...mutants(
    'journal/gateway-name.ts',
    ['journal/gateway-name.test.ts', 'ratelimit/sums/copied-volume.test.ts'],
    [
      ['found.inode !== inodeOf(kept) || ', ''],
      [' || found.host !== host', ''],
      ['if (beside.name === found.was) {', 'if (false) {'],
      ['if (beside.name !== found.name) {', 'if (false) {'],
    ],
  ),
  ...mutants(
    'ratelimit/sums/journal-sums.ts',
    ['ratelimit/sums/copied-volume.test.ts'],
    [['name.rename(...handedOver)', 'throw error']],
  ),
  // I4, I6 and the form of answers.
  ...mutants(
    'ratelimit/sums/scripts.ts',
    ['ratelimit/sums/redis-sums.test.ts'],
    [
      ['tonumber(sum) > own', 'true'],
      // Of sums that doubles do not have.
      ['#own < 16 and #total < 16 and #sum < 16', 'true'],
      ['sum_low <= own_low', 'false'],
      ['high, low = high + carry,', 'high, low = high,'],
      ['high, low = 9223372036, 854775807 end', 'end'],
      ["(ARGV[2] == '0' or own and tonumber(number) >= tonumber(ARGV[2]))", 'true'],
      ['and not is_late and', 'and'],
      ['total + sum - own', 'total + sum'],
      ["if not had[2] then redis.call('PEXPIRE'", "if true then redis.call('PEXPIRE'"],
      ["redis.call('GET', note) ~= ARGV[i] then sum = 0", 'false then sum = 0'],
    ],
  ),
  ...mutants(
    'ratelimit/sums/writer-mark.ts',
    ['ratelimit/sums/partition.test.ts', 'ratelimit/sums/schedules.test.ts'],
    [
      ['isRival || had.number < sent.acknowledged', 'isRival'],
      ['acknowledged = isLoss ? 0 : sent.number', 'acknowledged = sent.number'],
    ],
  ),
  ...mutants(
    'ratelimit/sums/whole-reads.ts',
    ['ratelimit/sums/partition.test.ts', 'ratelimit/sums/schedules.test.ts'],
    [
      // I5: others' fields only as they were read.
      ['      found.delete(name)\n', ''],
      // What a version before has counted.
      ['!isKnown && !isReset &&', '!isKnown &&'],
      ['since <= startedAt && startedAt < end', 'true'],
    ],
  ),
  ...mutants(
    'ratelimit/sums/partition.ts',
    ['ratelimit/sums/partition.test.ts', 'ratelimit/sums/schedules.test.ts'],
    [
      ['if (event !== undefined) restore()', ''],
      ['missingSums.set(tally, missing)', ''],
      ['if (!isWhole) incomplete.add(tally)', ''],
      // I10: what has grown meanwhile is sent.
      ['if (field < ownUseOf(tally)) enqueue(tally)\n    else if', 'if'],
    ],
  ),
  // I9 and I11: what is known only grows.
  ...mutants(
    'ratelimit/rules/tally.ts',
    ['ratelimit/rules/tally.test.ts'],
    [
      ['if (field > tally.field) tally.field = field', 'tally.field = field'],
      ['if (others > tally.others) ', ''],
      ['maxExact(ownUseOf(tally), tally.field)', 'ownUseOf(tally)'],
      ['between >= 0 && ', ''],
    ],
  ),
  ...mutants(
    'ratelimit/rules/sums.ts',
    ['ratelimit/rules/tally.test.ts'],
    [
      ['if (tally.end !== window.end) Object.assign(tally, window)', ''],
      ['ms < longMs ? 20_000 : 7_200_000', '20_000'],
      ['window.ms < wrongMs && isEnded', 'isEnded'],
      ['overSince.delete(tally)\n      return', 'return'],
      ['tally.since > now ? tally.ms : wrongMs', 'wrongMs'],
      ['longMs = 72_000_000', 'longMs = 86_400_000'],
    ],
  ),
  ...mutants(
    'ratelimit/rules/other-sums.ts',
    ['ratelimit/rules/tally.test.ts'],
    [['Number.isSafeInteger(sum) ? sum : (parseExact(text) ?? 0)', 'sum']],
  ),
  ...mutants(
    'formats/exact.ts',
    ['formats/exact.test.ts'],
    [
      ['if (Number.isSafeInteger(sum)) return sum', 'return sum'],
      ['sum < maxExactInt ? toExact(sum) : maxExactInt', 'toExact(sum)'],
      ['return Number.isSafeInteger(number) ? number : value', 'return value'],
      ['value > maxExactInt ? undefined', 'false ? undefined'],
    ],
  ),
  // No name forges a line, and none is longer than its bound.
  ...mutants(
    'usage/rules/line-head.ts',
    ['usage/rules/line-head.test.ts'],
    [
      ['if (payer.length <= longest) return payer', 'return payer'],
      ['"user":${toBoundedJson(user, most.user)}', '"user":"${user}"'],
    ],
  ),
  ...mutants(
    'formats/bounded-text.ts',
    ['usage/rules/line-head.test.ts'],
    [
      [': JSON.stringify(value)\n', ': `"${value}"`\n'],
      ['|| Buffer.byteLength(text) <= bytes) return text', '|| true) return text'],
      ['kept + digest', 'kept'],
    ],
  ),
  ...mutants(
    'ratelimit/rules/counter-key.ts',
    ['usage/rules/line-head.test.ts'],
    [['(bytes - 2) / 6', '(bytes - 2) / 3']],
  ),
  ...mutants(
    'journal/journal-line.ts',
    ['journal/journal-line.test.ts'],
    [
      ['if (fields?.v !== 1)', 'if (false)'],
      ['text.lastIndexOf(each)', 'text.indexOf(each)'],
      ['fields.metered === true', 'fields.metered !== false'],
      ['status === 0 && isSent && hasClientDisconnected', 'status === 0 && hasClientDisconnected'],
    ],
  ),
  ...mutants(
    'usage/rules/read-line-head.ts',
    ['journal/journal-line.test.ts'],
    [["if (typeof windows === 'string')", 'if (false)']],
  ),
  ...mutants(
    'usage/ledger/feed.ts',
    ['usage/ledger/feed.test.ts'],
    [
      // Each line is added once: sums and position move together, from where the database has them.
      ['if (!isOurs) throw new OtherReader()', ''],
    ],
  ),
  ...mutants(
    'usage/ledger/places.ts',
    ['usage/ledger/feed.test.ts'],
    [
      ['position.set(head, offset)', ''],
      ['const head = headFromLedger(known)', 'const head = known'],
    ],
  ),
  ...mutants(
    'usage/ledger/ledger-reading.ts',
    ['usage/ledger/feed.test.ts'],
    [
      ['!isRetold(text, name)', 'true'],
      ['noteGap(endedAt ?? clock(), nextAfter', 'void (endedAt ?? clock(), nextAfter'],
    ],
  ),
  ...mutants(
    'usage/ledger/places.ts',
    ['usage/ledger/feed.test.ts'],
    [
      ['absent.slice(0, -maxAbsent)', 'absent'],
      ['place.done = true', ''],
    ],
  ),
  ...mutants(
    'usage/ledger/ledger-lines.ts',
    ['usage/ledger/journal-archiver.test.ts', 'cli/verify-usage.test.ts'],
    [
      ['header.before !== follows.hash', 'false'],
      ['last?.piece === piece && last.hash !== hash', 'false'],
      ['      position,\n', '      position: new Map(),\n'],
    ],
  ),
  // While many lines come a process is not woken for each, and reads all of them.
  ...mutants(
    'ratelimit/sums/line-watch.ts',
    ['ratelimit/sums/line-watch.test.ts'],
    [
      ['if (isAlone) restMs', 'if (false) restMs'],
      ['mostBytes / bytesPerMs', 'aloneMs'],
      ['if (now - changedAt < manyWithinMs && !had) becomeBusy()', ''],
      ['if (found > 0) foundAt = monotonic()', ''],
      ['if (freshMs <= 0) readEnds(false)', 'readEnds(false)'],
    ],
  ),
  // I12: a hold is what is open, a sum what has ended.
  ...mutants(
    'ratelimit/holds/hold-scripts.ts',
    ['ratelimit/holds/hold-scripts.test.ts'],
    [
      ['each.in_use >= limit', 'each.used >= limit'],
      [
        'math.max(known + each.sums.count, own + all.count)',
        'math.max(known, own) + each.sums.count',
      ],
      ['      if own > known then each.sums = all end\n', ''],
      ['id == ARGV[1] then drop', 'false then drop'],
      ["for_all ~= '' or", 'false or'],
      ['change(each.name, each.all, 1', 'change(each.name, each.sums, 1'],
      ["refuse(stays and 'spent' or 'busy')", "refuse('busy')"],
      ['change(name, sums_of(name), -1, -mean, -variance, -output, -most)', ''],
      ['if own.most > each.room and', 'if false and'],
      ['not is_less(used, limit)', 'tonumber(used) >= tonumber(limit)'],
      ['change(name, sums_of(name), 0, own - o, wide - v, own - o, 0)', ''],
      ['(not alone or several and not can_limit_output)', 'not alone'],
      ['math.max(tonumber(others), total - own)', '(total - own)'],
      ['each.used = others + math.max(known, own)', 'each.used = others + own'],
      ['if not less then return sums end', 'if true then return sums end'],
      ["if string.find(known, ' ?', 1, true) then redis", 'if false then redis'],
      ['sums.mean + own.mean + ', 'own.mean + '],
    ],
  ),
  ...mutants(
    'ratelimit/sums/partition.ts',
    ['ratelimit/sums/partition.test.ts'],
    [
      ['writes && due.size <= batch.length ? ended', 'writes ? ended'],
      ['    ended.forget(holds)\n', ''],
      ['isWriter() ? holdLeaseMs : handoverMs', 'holdLeaseMs'],
    ],
  ),
  ...mutants(
    'journal/writer-election.ts',
    ['journal/writer-election.test.ts'],
    [
      ['at === undefined || all().at(-1) === nobody', 'at === undefined'],
      ['if (all().at(-1) === nonce) folder', 'folder'],
      ['Math.abs(now() - at) >= writerSilenceMs', 'now() - at >= writerSilenceMs'],
      ['nonces.slice(-kept)', 'nonces.slice(0, kept)'],
    ],
  ),
  ...mutants(
    'journal/rotation.ts',
    ['journal/rotation.test.ts'],
    [
      ['isAsked && !unopened.has(name)', '!unopened.has(name)'],
      ['if (framed.includes(name)) mark(earlier)', ''],
      ['        await options.reopen()\n', '        void options.reopen().catch(() => {})\n'],
    ],
  ),
  ...mutants(
    'journal/line-guard.ts',
    ['journal/line-guard.test.ts'],
    [['waitingSince ??= monotonic()', 'waitingSince = monotonic()']],
  ),
  // The table gives away nothing that Check would refuse.
  ...mutants(
    'table/table.ts',
    ['table/table.test.ts', 'table/files.test.ts'],
    [
      ['suspended === 0 && asked.mark === mark', 'suspended === 0'],
      ['suspended === 0 && asked.mark === mark', 'asked.mark === mark'],
      ['quietAt = performance.now() + headKeptMs', 'quietAt = performance.now()'],
      ['return isCreating || table.isInPlace()', 'return true'],
      ['(isInPlace(table) ? work(table) : endTable(table))', 'work(table)'],
      ['isOurs && !table.noteClocks()', 'isOurs'],
      ['else if (!table.isResting) withdrawByHead(table.rest)', ''],
      ['      table.end()', ''],
    ],
  ),
  ...mutants(
    'table/repeat-detector.ts',
    ['table/repeat-detector.test.ts'],
    [
      ['isRepeated ? 2 * soonMs : soonMs', 'soonMs'],
      ['at < (until.get(name) ?? Number.NEGATIVE_INFINITY)', 'until.has(name)'],
    ],
  ),
  ...mutants(
    'table/files.ts',
    ['table/files.test.ts'],
    [
      ['      beginsWith(table, head) &&', ''],
      ['if (isCopy) fs.ftruncateSync(file, 0)', ''],
    ],
  ),
  ...mutants(
    'table/open-table.ts',
    ['table/repeat-detector.test.ts'],
    [["if (planned === 'first') for", 'if (false) for']],
  ),
  ...mutants(
    'table/table.ts',
    ['table/table.test.ts'],
    [['asked.rule === undefined && suspended', 'suspended']],
  ),
  ...mutants(
    'table/open-table.ts',
    ['table/table.test.ts'],
    [
      ['leaseUntil = now + Math.min(tableLeaseMs, ms)', 'leaseUntil = now + tableLeaseMs'],
      ['generation = (generation + 1) >>> 0', ''],
      ['now - namedAt < settledMs', 'false'],
      ['grant.held?.estimate !== undefined && estimate === undefined', 'false'],
      ['slots.endAll(clocks.boot() + headKeptMs)', 'slots.size, slots.clear()'],
      ['    files.clearRecord(slot)', ''],
      ['    files.clearRecords()', ''],
    ],
  ),
  ...mutants(
    'table/blocks.ts',
    ['table/blocks.test.ts', 'table/table.test.ts'],
    [
      ["if (line.state === 'running') return", ''],
      ['line.lane?.file === file ? line.lane', 'true ? line.lane'],
      ['const name = Buffer.alloc(8)', 'const name = Buffer.allocUnsafe(8)'],
      ['offset: used - cell.added', 'offset: used'],
      ['if (start < cell.end) {', 'if (false) {'],
      ['startedAt < cell.start && endedAt - cell.start < doubtMs', 'false'],
      ['isOver || !isSure || charged !== block.counters.length', '!isSure'],
      ['amount === lane?.added && at === endedAt', 'true'],
      ['window.ageMs < 0 ? Infinity', 'false ? Infinity'],
      ['    options.clear(block.number)', ''],
    ],
  ),
  ...mutants(
    'table/rules/miss-rules.ts',
    ['table/rules/miss-rules.test.ts'],
    [
      ["if (kind === 'requests' || kind === 'concurrency') return kind", ''],
      ['if (grant.isByTariff)', 'if (false)'],
      ["asked.query !== '' && ", "asked.query === '' && "],
      ['limits.length > cellsOfBlock', 'limits.length > 7'],
    ],
  ),
]
