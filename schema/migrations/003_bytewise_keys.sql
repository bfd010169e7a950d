-- The two authorities on "once", receipts by event and effects by key, compare bytes. Under a language's
-- collation, an upgrade of the system's C library may change the order that their indexes were built in:
-- they no longer find what they hold, and an event would be taken twice. The event's ID stands first: it
-- decides nearly every comparison alone, and finds an event without its provider.
--
-- Rebuilds indexes of receipts, effects and effect_attempts, which are locked meanwhile: an ingress
-- answers 503. No row is rewritten.
alter table receipts
    drop constraint receipts_provider_account_mode_event_id_key,
    alter column provider type text collate "C",
    alter column account type text collate "C",
    alter column event_id type text collate "C",
    add constraint receipts_event unique (event_id, provider, account, mode);

alter table effects alter column key type text collate "C";
alter table effect_attempts alter column key type text collate "C";

-- A change of type forgets what was known about the columns. Nothing is known of an empty table either, but
-- to say that it is empty would have its first statements planned for that.
do $$
begin
    if exists (select from receipts) then
        analyze receipts, effects, effect_attempts;
    end if;
end $$;
