-- Keys that are no longer what a process may remember of them, in the order in which that was
-- committed: whoever follows the log by its sequence misses none. '*' means every key. Its first
-- row stands for the time before the log; the newest of those older than two days is always kept, so
-- that a follower whose row is gone knows that it has been away for too long.
create table tollgate_revocations (
  sequence bigint generated always as identity primary key,
  key_hash text not null,
  at timestamptz not null default clock_timestamp()
);
insert into tollgate_revocations (key_hash) values ('*');

-- The processes that answer for keys, each with how far it has followed the log. `serves_until` is
-- when it will have stopped believing what it remembers if it can not follow any further. `place` is
-- where it runs: no two processes that live are in one place.
create table tollgate_replicas (
  id uuid primary key,
  name text not null,
  place text not null,
  seen_at timestamptz not null,
  serves_until timestamptz not null,
  acknowledged bigint not null
) with (fillfactor = 50);

-- Whoever changes a key, by whichever way, logs it: also the service this table was taken over
-- from and a person at a prompt, who need no rights of their own for it. The lock makes the order
-- of the sequence the order of the commits. It is taken after the statement has locked its rows, so
-- of single statements none waits for another crosswise. The notification is the same for every
-- row, hence one a transaction: it says that there is something to read.
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

-- Not for last_used_at, which is written often and changes nothing that is believed of a key.
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

-- Also for what a session does as a replica (`session_replication_role`) and what is applied by
-- logical replication.
alter table api_keys enable always trigger tollgate_key_changed;
alter table api_keys enable always trigger tollgate_key_deleted;
alter table api_keys enable always trigger tollgate_keys_truncated;
