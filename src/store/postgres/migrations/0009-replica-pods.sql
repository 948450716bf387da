-- works-with: 0004
-- The pod of a process: {cluster, namespace, name, uid}; null outside of a cluster. Nothing waits for
-- a process whose pod has ended according to its API server.
alter table tollgate_replicas add column pod jsonb;
