#!/bin/sh
# Creates the secrets of docker-compose.yml, and makes the files that it mounts readable for the containers. Existing
# secrets are not changed, so you can run the script again.
#   deploy/compose/secrets.sh              passwords, and a random Stripe secret to try things with
# Before going live, write Stripe's signing secret into secrets/stripe_webhook_secret.
set -eu
umask 077
dir=$(dirname "$0")/secrets
mkdir -p "$dir"

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# secret NAME CONTENT. The users in the containers differ from yours, so all users can read the files. The permissions
# of the directory keep other users of this machine out. printf is a shell builtin, so no process has a password as an
# argument.
secret() {
	[ -s "$dir/$1" ] || printf '%s\n' "$2" >"$dir/$1"
	chmod 0644 "$dir/$1"
}

# The migration and each process have separate database roles; see postgres-init.sh.
role() { # NAME ROLE
	secret "pawl_$1_password" "$(random)"
	secret "pawl_$1_database_url" "postgres://$2:$(cat "$dir/pawl_$1_password")@postgres:5432/pawl?sslmode=disable"
}

secret postgres_password "$(random)"
role owner pawl
role ingress pawl_ingress
role worker pawl_worker
role console pawl_console
secret temporal_database_password "$(random)"
secret stripe_webhook_secret "whsec_$(random)"

# In a clone under umask 077, the users in the containers could not read these files.
(
	cd "$dir/.."
	for mounted in ./*.yaml ./*.sh signals/* ../alerts/pawl.yaml ../grafana/pawl.json; do
		[ ! -e "$mounted" ] || chmod a+r "$mounted"
	done
)
echo "secrets are in $dir"
