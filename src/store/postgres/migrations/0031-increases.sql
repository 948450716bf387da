-- works-with: 0004
-- Limits by name that administrators have raised for a while. `counter` is the key of the counter that is compared with
-- `amount`; a row is without effect from `until` on, and is removed later.
create table tollgate_increases (
  id uuid primary key default gen_random_uuid(),
  counter text not null,
  per text not null,
  -- Tokens, requests, or money in units of 10^-9.
  amount numeric not null,
  until timestamptz not null,
  reason text not null,
  created_by text not null,
  created_at timestamptz not null
);
