-- works-with: 0004
-- What responses cost by kinds of tokens. `prices` belongs to the group: those at admission, as the journal has them;
-- empty in rows of earlier versions and of what has no price, which cost their total times their rate.
alter table tollgate_usage_hours add column prices text not null default '';
-- What was charged, in units of 10^-9: each response is rounded up once. Null: `rate` says it.
alter table tollgate_usage_hours add column cost_nano numeric;
-- The parts of the total: input that no cache had, input from a cache, input written to one. The rest is output.
alter table tollgate_usage_hours add column priced_input_tokens bigint not null default 0;
alter table tollgate_usage_hours add column priced_cached_tokens bigint not null default 0;
alter table tollgate_usage_hours add column cache_write_tokens bigint not null default 0;
-- What weights add to the total in limits, or take from it: versions that know none leave it 0.
alter table tollgate_usage_hours add column weight_tokens bigint not null default 0;
