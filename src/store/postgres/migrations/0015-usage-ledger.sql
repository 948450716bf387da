-- works-with: 0004
-- The usage ledger: sums by hour of what the usage journal reports, charged as they were when the
-- requests were admitted. `id` is a digest of the group, because names may be too long for an index.
-- Sums end at 2^53 - 1, the largest that every JSON reader takes. `refusals` is approximate.
create table tollgate_usage_hours (
  hour timestamptz not null,
  id uuid not null,
  username text not null,
  subscription text not null,
  model text not null,
  -- Empty: an identity token, or a line of an earlier version.
  key_id text not null,
  organization text not null,
  cost_center text not null,
  -- Per token; null: none, or not a decimal number.
  rate numeric,
  answers bigint not null default 0,
  refusals bigint not null default 0,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cached_tokens bigint not null default 0,
  reasoning_tokens bigint not null default 0,
  total_tokens bigint not null default 0,
  estimated_tokens bigint not null default 0,
  primary key (hour, id)
) partition by range (hour);
-- For hours whose month has no partition yet.
create table tollgate_usage_hours_default partition of tollgate_usage_hours default;
create index tollgate_usage_hours_username on tollgate_usage_hours (username, hour);
create index tollgate_usage_hours_key_id on tollgate_usage_hours (key_id, hour);
create index tollgate_usage_hours_organization on tollgate_usage_hours (organization, hour)
  where organization <> '';

-- Up to where each journal has been added to the sums: always changed together with them. `revision`
-- changes with each addition. `closed_at`: read to its end by a process that has ended.
create table tollgate_usage_journals (
  journal text primary key,
  revision bigint not null default 0,
  places jsonb not null default '[]',
  seen_at timestamptz not null default now(),
  closed_at timestamptz
);

-- What was never read, because the journal's bounds or a lost volume took it, or a line was torn.
create table tollgate_usage_gaps (
  journal text not null,
  from_time timestamptz not null,
  to_time timestamptz not null,
  primary key (journal, from_time, to_time)
);
