-- works-with: 0004
-- Usage that nobody has had: the history that `tollgate demo` writes into the database of `tollgate up`. Bills, exports and
-- comparisons with journals leave it out.
alter table tollgate_usage_hours add column demo boolean not null default false;
