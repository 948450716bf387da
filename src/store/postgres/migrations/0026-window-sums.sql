-- works-with: 0004
-- What each gateway has counted in windows of a day and longer: gateways that have ended can't write their
-- sums again into a Redis that has lost them. `id` is a digest of the window's name.
create table tollgate_window_sums (
  id uuid not null,
  gateway text not null,
  ends_at timestamptz not null,
  used bigint not null,
  primary key (id, gateway)
);
create index tollgate_window_sums_ends_at on tollgate_window_sums (ends_at);
-- With how much of it used a counter goes on; null: with nothing.
alter table tollgate_counter_resets add column used bigint;
-- By the database's clock, for those who ask what is new: the clocks of those who reset may differ.
alter table tollgate_counter_resets add column written_at timestamptz not null default now();
create index tollgate_counter_resets_written_at on tollgate_counter_resets (written_at);
