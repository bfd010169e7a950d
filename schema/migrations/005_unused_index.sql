-- No statement looks a subscription up by its account, yet every write paid for an index of it; and until
-- the table was analyzed for the first time, the planner could take that index, by the mode alone, for a
-- lookup by ID, and read all subscriptions of that mode.
--
-- Locks subscriptions for a moment.
drop index subscriptions_account;
