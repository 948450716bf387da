-- works-with: 0004
-- Whether the secret of a key may still be replaced by a repeated request.
create index tollgate_idempotency_key_hash on tollgate_idempotency (key_hash) where key_hash is not null;
