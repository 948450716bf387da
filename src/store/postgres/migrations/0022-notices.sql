-- works-with: 0004
-- Notices for NOTIFY_URL: the last of each counter and percent, or of a key that expires. `ends_at` is the end
-- of the window, or of the key. `due_at`: when it is sent next; null: it was sent, or given up.
create table tollgate_notices (
  subject uuid not null,
  percent int not null,
  ends_at timestamptz not null,
  id uuid not null default gen_random_uuid(),
  body text not null,
  created_at timestamptz not null default now(),
  attempts int not null default 0,
  due_at timestamptz default now(),
  primary key (subject, percent)
);
create index tollgate_notices_due_at on tollgate_notices (due_at) where due_at is not null;
