-- works-with: 0004
-- Keys that expire soon, which every process looks for each minute.
create index api_keys_active_expires_at on api_keys (expires_at) where status = 'active' and not ephemeral;
