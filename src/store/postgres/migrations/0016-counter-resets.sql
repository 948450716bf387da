-- works-with: 0004
-- When administrators have reset token counters: a process whose counters are in its memory reads the
-- journal again when it starts, and must not add what ended before. `id` is a digest of the counter's
-- name, which may be too long for an index.
create table tollgate_counter_resets (
  id uuid primary key,
  counter text not null,
  reset_at timestamptz not null
);
