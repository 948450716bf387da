-- works-with: 0004
-- What the processes of an installation share and nobody else knows, in hexadecimal.
create table tollgate_secrets (
  name text primary key,
  value text not null
);
