-- The table of the original service, unchanged, so that its rows can be taken over unchanged.
create table if not exists api_keys (
  id text primary key,
  username text not null,
  name text not null,
  description text,
  key_hash text not null,
  status text not null default 'active' check (status in ('active', 'revoked', 'expired')),
  user_groups text[] not null,
  subscription text not null,
  ephemeral boolean not null default false,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  last_used_at timestamptz
);

create unique index if not exists api_keys_key_hash on api_keys (key_hash);
create index if not exists api_keys_username_created_at on api_keys (username, created_at desc);
