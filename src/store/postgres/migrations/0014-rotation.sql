-- works-with: 0004
-- The secret that a rotation has replaced and that works for a while longer. An older service knows only
-- the new one. `previous_end_after`: how long after the first use of the new secret it ends.
alter table api_keys add column previous_hash text;
alter table api_keys add column previous_prefix text;
alter table api_keys add column previous_ends_at timestamptz;
alter table api_keys add column previous_last_used_at timestamptz;
alter table api_keys add column previous_end_after interval;
create unique index api_keys_previous_hash on api_keys (previous_hash) where previous_hash is not null;

-- When a secret ends that works for a while longer; null: it has ended.
alter table tollgate_revocations add column ends_at timestamptz;

create or replace function tollgate_log_revocation() returns trigger
language plpgsql security definer set search_path from current as $$
begin
  if tg_op = 'TRUNCATE' then
    insert into tollgate_revocations (key_hash) values ('*');
  elsif tg_op = 'DELETE' then
    insert into tollgate_revocations (key_hash, key_id, ended, expires_at)
      select hash, old.id, true, old.expires_at
      from unnest(array[old.key_hash, old.previous_hash]) as hash where hash is not null;
  else
    insert into tollgate_revocations (key_hash, key_id, ended, expires_at, ends_at)
      values (old.key_hash, old.id,
        new.status <> 'active' or new.key_hash <> old.key_hash, old.expires_at,
        case when new.status = 'active' and new.previous_hash = old.key_hash
          then new.previous_ends_at end);
    if old.previous_hash is not null then
      insert into tollgate_revocations (key_hash, key_id, ended, expires_at, ends_at)
        values (old.previous_hash, old.id, true, old.expires_at,
          case when new.status = 'active' and new.previous_hash = old.previous_hash
            then new.previous_ends_at end);
    end if;
  end if;
  perform pg_notify('tollgate_revocations', '');
  return null;
end
$$;

drop trigger tollgate_key_changed on api_keys;
create trigger tollgate_key_changed
  after update of status, key_hash, username, user_groups, subscription, expires_at, previous_hash,
    previous_ends_at on api_keys
  for each row when (
    (old.status, old.key_hash, old.username, old.user_groups, old.subscription, old.expires_at,
      old.previous_hash, old.previous_ends_at)
      is distinct from
    (new.status, new.key_hash, new.username, new.user_groups, new.subscription, new.expires_at,
      new.previous_hash, new.previous_ends_at)
  )
  execute function tollgate_log_revocation();
alter table api_keys enable always trigger tollgate_key_changed;
