#!/bin/sh
# Makes pawl's namespace and its search attributes. May be called again.
set -eu

# The port opens before the server takes requests.
tries=0
until temporal operator cluster health; do
	tries=$((tries + 1))
	[ "$tries" -lt 30 ] || exit 1
	sleep 2
done

# Thirty days: long enough to look at last month's runs. pawl itself needs none of it, its own tables last.
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
	temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 30d

# A new namespace takes some seconds to be known to every part of the server.
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
