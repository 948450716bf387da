-- works-with: 0004
-- Requests with an Idempotency-Key, for a day. `scope` is a hash of caller, endpoint and key, `request` one of
-- the body. `attempt`: the request under way; null: none. `key_id` and `key_hash` say which secret was made,
-- written by the statement that made it.
create table tollgate_idempotency (
  scope text primary key,
  request text not null,
  created_at timestamptz not null,
  attempt uuid,
  attempted_at timestamptz not null,
  key_id text,
  key_hash text
);
create index tollgate_idempotency_created_at on tollgate_idempotency (created_at);
