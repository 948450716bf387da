-- works-with: 0004
-- The printable beginning of a key, `sk-tg-` and six characters, by which it is found again. Keys
-- from before and those taken over have none: all that was kept of them is the hash.
alter table api_keys add column if not exists key_prefix text;
create index if not exists api_keys_key_prefix on api_keys (key_prefix) where key_prefix is not null;
