-- works-with: 0004
-- What each process that may be serving has in force for each model, to tell where a change is in
-- force. `edition` changes whenever a process reports everything again, and is null until a starting
-- process has reported anything; `revision` increases with each change. A process of an earlier version
-- has no row.
create table tollgate_reports (
  replica uuid primary key,
  edition uuid,
  revision bigint not null default 0,
  reported_at timestamptz not null default now()
);

create table tollgate_in_force (
  replica uuid not null references tollgate_reports on delete cascade,
  model text not null,
  revision bigint not null,
  -- Digests of its access, its limits and its server; all null: the model is gone.
  access text,
  limits text,
  server text,
  -- Whether the process's Envoy has the model's cluster.
  envoy text,
  primary key (replica, model)
);
create index tollgate_in_force_revision on tollgate_in_force (replica, revision);
