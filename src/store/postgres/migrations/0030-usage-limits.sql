-- works-with: 0004
-- What limits by name were charged, from the same lines and in the same statement as the sums of hours. `id` is a digest of
-- what a row is about, because names may be too long for an index.
create table tollgate_usage_limits (
  -- Of the window, or of the hour in which a shorter one was charged.
  begins_at timestamptz not null,
  id uuid not null,
  -- A Subscription's name, `ModelRef/<namespace>/<name>`, `Tenant`, or `key/<id>`.
  resource text not null,
  name text not null,
  kind text not null,
  per text not null,
  -- A user, group, Subscription or organization; empty: all of the resource.
  whom text not null,
  -- As the journal has it: `86400000`, `month1@Europe/Zurich`.
  window_text text not null,
  -- Tokens, requests, or money in units of 10^-9.
  amount numeric not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  primary key (begins_at, id)
) partition by range (begins_at);
-- For times whose month has no partition yet.
create table tollgate_usage_limits_default partition of tollgate_usage_limits default;
