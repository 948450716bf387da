-- works-with: 0004
-- The last archive of each usage journal. `hash` is that of its content, which names the one before, and so
-- vouches for all of them. `places`: how far each of the journal's files is archived.
create table tollgate_usage_archives (
  journal text primary key,
  piece bigint not null default 0,
  hash text not null default '',
  places jsonb not null default '[]',
  archived_at timestamptz
);
