-- works-with: 0004
-- Active keys of a subscription, in the order in which they are revoked together.
create index api_keys_active_by_subscription on api_keys (subscription, created_at desc, id)
  where status = 'active';
