-- works-with: 0004
-- The names that model servers list, so that every process knows a name as soon as one of them does,
-- also one that starts while the server is unavailable. `server` is a hash of how the server is called.
create table tollgate_served_names (
  server text primary key,
  names text[] not null,
  changed_at timestamptz not null default now(),
  seen_at timestamptz not null default now()
);
