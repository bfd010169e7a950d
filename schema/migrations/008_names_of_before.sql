-- Two names had changed, and what was held under the old ones was not found under the new ones.
--
-- The source's name stands as the account of an event that gives none, where the provider is a way of signing. An
-- event that was taken before and is delivered again was another one, and run again. One that has not been started
-- stays as it is: its run may have begun under its old name, and be only not recorded.
--
-- Rewrites these receipts, which blocks nobody but who writes the same ones: a delivery of one that comes again waits.
-- Ingresses of the version before may go on.
update receipts r set account = r.source
 where r.provider in ('hmac', 'standardwebhooks', 'svix', 'gethook') and r.account = '' and r.status <> 'received'
   and not exists (select from receipts o
                    where o.event_id = r.event_id and o.provider = r.provider and o.account = r.source and o.mode = r.mode);

-- An onboarding task's effect names the invoice after the day. Of a run that was parked before, an undo found no task
-- of its own: the task stayed open, and a reset opened one that had been cancelled.
update onboarding_tasks t set effect_key = t.effect_key || ':' || r.object_id
  from effects e join receipts r on r.id = e.receipt_id
 where e.key = t.effect_key and e.kind = 'onboarding-task' and e.key ~ ':\d{4}-\d\d-\d\d$' and r.object_id <> '';

with renamed as (
    update effects e set key = e.key || ':' || r.object_id
      from receipts r
     where r.id = e.receipt_id and e.kind in ('onboarding-task', 'cancel-onboarding-task')
       and e.key ~ ':\d{4}-\d\d-\d\d$' and r.object_id <> ''
       and not exists (select from effects o where o.key = e.key || ':' || r.object_id)
    returning e.key, ':' || r.object_id as added
)
update effect_attempts a set key = n.key from renamed n where a.key = left(n.key, -length(n.added));
