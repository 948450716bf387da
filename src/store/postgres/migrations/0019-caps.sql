-- works-with: 0004
-- Caps of a key: an object of src/core/formats/key-caps.ts, null for none. A change is logged as of the key,
-- and does not end it. An older service does not know caps: a change is not confirmed while one may be serving.
alter table api_keys add column if not exists caps jsonb;

-- The number of the last migration that a process knows; 0: of a version before this column.
alter table tollgate_replicas add column knows int not null default 0;

drop trigger tollgate_key_changed on api_keys;
create trigger tollgate_key_changed
  after update of status, key_hash, username, user_groups, subscription, expires_at, previous_hash,
    previous_ends_at, caps on api_keys
  for each row when (
    (old.status, old.key_hash, old.username, old.user_groups, old.subscription, old.expires_at,
      old.previous_hash, old.previous_ends_at, old.caps)
      is distinct from
    (new.status, new.key_hash, new.username, new.user_groups, new.subscription, new.expires_at,
      new.previous_hash, new.previous_ends_at, new.caps)
  )
  execute function tollgate_log_revocation();
alter table api_keys enable always trigger tollgate_key_changed;
