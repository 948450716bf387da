-- works-with: 0004
-- Every change of increases is in the log that processes follow for keys, whoever makes it: a process that has read it
-- has read the increases since, so that a response can say when all have. In the place of a hash it has '#increases'.
create function tollgate_log_increases() returns trigger
language plpgsql security definer set search_path from current as $$
begin
  insert into tollgate_revocations (key_hash) values ('#increases');
  perform pg_notify('tollgate_revocations', '');
  return null;
end
$$;

create trigger tollgate_increases_changed
  after insert or update or delete or truncate on tollgate_increases
  for each statement execute function tollgate_log_increases();
alter table tollgate_increases enable always trigger tollgate_increases_changed;
