-- works-with: 0004
-- Names that servers list are looked up by the lists that each process was given itself: what was known of them
-- here, and to whom each belonged, is needed no longer. Earlier versions then serve only the names that they know.
drop table tollgate_name_owners;
drop table tollgate_served_names;
