-- works-with: 0004
-- Requests of users for more of a limit by name for a while. `counter` is the key of the counter that is meant; `slot`
-- bounds how many of a user are open. An open one is over from `until` on; rows are removed later.
create table tollgate_limit_requests (
  id uuid primary key default gen_random_uuid(),
  username text not null,
  slot int not null,
  counter text not null,
  per text not null,
  -- Tokens, requests, or money in units of 10^-9.
  amount numeric not null,
  until timestamptz not null,
  reason text not null,
  created_at timestamptz not null,
  state text not null default 'open' check (state in ('open', 'approved', 'denied')),
  decided_by text,
  decided_at timestamptz,
  decision_reason text,
  increase_id uuid,
  granted_amount numeric,
  granted_until timestamptz
);
create unique index tollgate_limit_requests_open on tollgate_limit_requests (username, slot) where state = 'open';
create index tollgate_limit_requests_username on tollgate_limit_requests (username);
