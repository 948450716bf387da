-- Keys that have changed, so that cached copies are out of date, in commit order: a follower that
-- reads by sequence misses none. '*' means every key. The first row represents the time before the
-- log. Of the rows older than two days the newest is always kept, so that a follower whose last row
-- is gone knows that it has been away for too long.
create table tollgate_revocations (
  sequence bigint generated always as identity primary key,
  key_hash text not null,
  at timestamptz not null default clock_timestamp()
);
insert into tollgate_revocations (key_hash) values ('*');

-- The processes that check keys, and how far each has followed the log. After `serves_until` a
-- process that cannot follow the log no longer uses its cache. `place` is where it runs: two running
-- processes never have the same place.
create table tollgate_replicas (
  id uuid primary key,
  name text not null,
  place text not null,
  seen_at timestamptz not null,
  serves_until timestamptz not null,
  acknowledged bigint not null
) with (fillfactor = 50);

-- Every change of a key is logged, whoever makes it: also the original service, or a person in psql.
-- They need no rights on the log. The lock makes the order of the sequence the order of the commits.
-- It is taken after the statement has locked its rows, so that single statements cannot deadlock. The
-- notification is the same for every row, and so is sent once per transaction: it says that there is
-- something to read.
create function tollgate_log_revocation() returns trigger
language plpgsql security definer set search_path from current as $$
begin
  perform pg_advisory_xact_lock(7005101903);
  insert into tollgate_revocations (key_hash)
    values (case tg_op when 'TRUNCATE' then '*' else old.key_hash end);
  perform pg_notify('tollgate_revocations', '');
  return null;
end
$$;

-- Not for last_used_at, which is written often and is not part of what is cached.
create trigger tollgate_key_changed
  after update of status, key_hash, username, user_groups, subscription, expires_at on api_keys
  for each row when (
    (old.status, old.key_hash, old.username, old.user_groups, old.subscription, old.expires_at)
      is distinct from
    (new.status, new.key_hash, new.username, new.user_groups, new.subscription, new.expires_at)
  )
  execute function tollgate_log_revocation();

create trigger tollgate_key_deleted
  after delete on api_keys
  for each row execute function tollgate_log_revocation();

create trigger tollgate_keys_truncated
  after truncate on api_keys
  for each statement execute function tollgate_log_revocation();

-- Also for changes by a session with `session_replication_role = replica` and by logical
-- replication.
alter table api_keys enable always trigger tollgate_key_changed;
alter table api_keys enable always trigger tollgate_key_deleted;
alter table api_keys enable always trigger tollgate_keys_truncated;
