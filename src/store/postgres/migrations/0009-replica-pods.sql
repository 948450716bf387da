-- works-with: 0004
-- The pod a process runs in: {cluster, namespace, name, uid}; null outside of a cluster. A pod that the
-- API server of its cluster says has ended is waited for no longer.
alter table tollgate_replicas add column pod jsonb;
