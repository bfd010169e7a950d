#!/bin/sh
# Creates pawl's namespace and its search attributes. You can run the script again.
set -eu

# The port opens before the server accepts requests.
tries=0
until temporal operator cluster health; do
	tries=$((tries + 1))
	[ "$tries" -lt 30 ] || exit 1
	sleep 2
done

# Temporal keeps closed runs for thirty days, so that you can inspect last month's runs. pawl does not need the closed
# runs, because it has its own tables.
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
	temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 30d

# It takes some seconds until a new namespace is known to every part of the server.
tries=0
until temporal operator search-attribute list >/dev/null 2>&1; do
	tries=$((tries + 1))
	[ "$tries" -lt 30 ] || exit 1
	sleep 2
done
for name in PawlProvider PawlType PawlReceipt PawlStatus; do
	temporal operator search-attribute list | grep -qw "$name" ||
		temporal operator search-attribute create --name "$name" --type Keyword
done
