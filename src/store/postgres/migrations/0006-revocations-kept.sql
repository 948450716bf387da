-- works-with: 0004
-- What a process needs to store a revocation outside of the database: whether the change ended the
-- key (revoked or deleted), its id, and when it would have expired. Older rows, and rows that an
-- older service writes itself, lack these.
alter table tollgate_revocations add column key_id text;
alter table tollgate_revocations add column ended boolean;
alter table tollgate_revocations add column expires_at timestamptz;

create or replace function tollgate_log_revocation() returns trigger
language plpgsql security definer set search_path from current as $$
begin
  if tg_op = 'TRUNCATE' then
    insert into tollgate_revocations (key_hash) values ('*');
  elsif tg_op = 'DELETE' then
    insert into tollgate_revocations (key_hash, key_id, ended, expires_at)
      values (old.key_hash, old.id, true, old.expires_at);
  else
    insert into tollgate_revocations (key_hash, key_id, ended, expires_at)
      values (old.key_hash, old.id,
        new.status <> 'active' or new.key_hash <> old.key_hash, old.expires_at);
  end if;
  perform pg_notify('tollgate_revocations', '');
  return null;
end
$$;
