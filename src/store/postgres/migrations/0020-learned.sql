-- works-with: 0004
-- What processes have learned of the sizes of requests, for estimates (src/core/admission): decaying sums, by
-- subscription, model and part of its estimator.
create table tollgate_learned (
  subscription text not null,
  model text not null,
  part smallint not null,
  sums float8[] not null,
  updated_at timestamptz not null,
  primary key (subscription, model, part)
);
create index tollgate_learned_updated_at on tollgate_learned (updated_at, subscription, model, part);
