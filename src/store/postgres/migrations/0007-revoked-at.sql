-- works-with: 0004
-- When a key was revoked, to tell its holder. A trigger sets it, so that it is also set if the original
-- service or a person in psql revokes the key. Keys revoked earlier have none.
alter table api_keys add column if not exists revoked_at timestamptz;

create function tollgate_note_revocation() returns trigger
language plpgsql set search_path from current as $$
begin
  new.revoked_at := case new.status when 'revoked' then now() end;
  return new;
end
$$;

create trigger tollgate_key_revoked
  before update of status on api_keys
  for each row when (old.status is distinct from new.status)
  execute function tollgate_note_revocation();
