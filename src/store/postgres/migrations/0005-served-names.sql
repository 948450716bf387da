-- works-with: 0004
-- What model servers list, so that every process knows a name as soon as one of them does, and those
-- that start while the server is away know it too. `server` is a hash of how the server is asked.
create table tollgate_served_names (
  server text primary key,
  names text[] not null,
  changed_at timestamptz not null default now(),
  seen_at timestamptz not null default now()
);
