-- A page of an administrator's search over all users, in its default order. A user's own search
-- goes by api_keys_username_created_at: in that order as it is, in any other by sorting what is
-- found, which is the user's own keys and nobody else's. Neither `name`, which may be longer than
-- an index entry, nor `last_used_at`, which is written often, is worth an index.
create index if not exists api_keys_created_at_id on api_keys (created_at, id);

-- The cleanup of expired ephemeral keys.
create index if not exists api_keys_ephemeral_expires_at on api_keys (expires_at) where ephemeral;

-- Revoking a key and noting its use rewrite its row: with room on the page no index is touched.
alter table api_keys set (fillfactor = 85);
