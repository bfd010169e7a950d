#!/bin/sh
# Creates the secrets of docker-compose.yml, and lets the containers read the files that it mounts. Existing secrets stay
# as they are, so you can repeat it.
#   deploy/compose/secrets.sh              passwords, and a random Stripe secret to try things with
# Put Stripe's own signing secret into secrets/stripe_webhook_secret before going live.
set -eu
umask 077
dir=$(dirname "$0")/secrets
mkdir -p "$dir"

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# secret NAME CONTENT. The containers' users differ from yours, so the files are readable for all. The directory keeps the
# other users of this machine out. printf is built into the shell: no argument of a process contains a password.
secret() {
	[ -s "$dir/$1" ] || printf '%s\n' "$2" >"$dir/$1"
	chmod 0644 "$dir/$1"
}

# The migration and each process have a role of their own, see postgres-init.sh.
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

# A clone under umask 077 keeps these files from the containers' users.
(
	cd "$dir/.."
	for mounted in ./*.yaml ./*.sh signals/* ../alerts/pawl.yaml ../grafana/pawl.json; do
		[ ! -e "$mounted" ] || chmod a+r "$mounted"
	done
)
echo "secrets are in $dir"
