-- works-with: 0004
-- To which namespace a name belongs that model servers list: the one whose server first answered with it.
-- `server` is that server, as in tollgate_served_names; `namespace` is null once the name is given up.
-- `missing_ms` is how long the server has answered without it, as of `missing_at`. `change` is the
-- same for all rows of one statement.
create table tollgate_name_owners (
  name text collate "C" primary key,
  namespace text,
  server text not null,
  missing_ms float8 not null default 0,
  missing_at timestamptz,
  changed_at timestamptz not null default now(),
  change uuid not null
);
create index tollgate_name_owners_changed_at on tollgate_name_owners (changed_at);
