-- works-with: 0004
-- Labels of a key: an object of strings that its holder chooses, null for none. The original's later
-- versions have the same column.
alter table api_keys add column if not exists labels jsonb;
create index api_keys_labels on api_keys using gin (labels jsonb_path_ops) where labels is not null;
