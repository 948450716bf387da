-- Removes the lock of the log. The lock made the order of the sequence the order of the commits, so
-- that a follower could continue from a number; but a transaction left open held the lock and
-- blocked every other revocation. Now each row names its transaction, and a follower reads what its
-- last snapshot did not contain, in any order of commits.
alter table tollgate_revocations add column transaction xid8;
alter table tollgate_revocations alter column transaction set default pg_current_xact_id();
create index tollgate_revocations_transaction on tollgate_revocations (transaction);

-- The replica knows everything that was committed in this snapshot.
alter table tollgate_replicas add column snapshot pg_snapshot;

create or replace function tollgate_log_revocation() returns trigger
language plpgsql security definer set search_path from current as $$
begin
  insert into tollgate_revocations (key_hash)
    values (case tg_op when 'TRUNCATE' then '*' else old.key_hash end);
  perform pg_notify('tollgate_revocations', '');
  return null;
end
$$;

-- A database from before the first release may have an earlier form of 0003, which lacked these.
alter table tollgate_replicas add column if not exists place text not null default '';
alter table api_keys enable always trigger tollgate_key_changed;
alter table api_keys enable always trigger tollgate_key_deleted;
alter table api_keys enable always trigger tollgate_keys_truncated;
