-- works-with: 0004
-- The printable beginning of a key, `sk-tg-` and six characters, to find the key by. Older keys and
-- those taken over have none: only their hash was stored.
alter table api_keys add column if not exists key_prefix text;
create index if not exists api_keys_key_prefix on api_keys (key_prefix) where key_prefix is not null;
