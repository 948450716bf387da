-- works-with: 0004
-- The edition of the time zones' rules by which a process ends the days of calendars; null: of an earlier version.
alter table tollgate_replicas add column zones text;
