-- For an administrator's search over all users in its default order. A search for a user's own keys
-- uses api_keys_username_created_at; in any other order it sorts the keys found, which are only the
-- user's own. `name` may be longer than an index entry, and `last_used_at` is written often: neither
-- is worth an index.
create index if not exists api_keys_created_at_id on api_keys (created_at, id);

-- The cleanup of expired ephemeral keys.
create index if not exists api_keys_ephemeral_expires_at on api_keys (expires_at) where ephemeral;

-- Revoking a key and recording its use rewrite its row. With room on the page no index changes.
alter table api_keys set (fillfactor = 85);
