#!/bin/sh
# Makes the secrets of docker-compose.yml. What is there already is kept, so it may be called again.
#   deploy/compose/secrets.sh              passwords, and a random Stripe secret to try things with
# Put Stripe's own signing secret into secrets/stripe_webhook_secret before going live.
set -eu
umask 077
dir=$(dirname "$0")/secrets
mkdir -p "$dir"

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# secret NAME CONTENT. The containers' users differ from yours and read the file by its mode; the directory
# keeps everyone else of this machine out. printf is the shell's own: no argument of a process shows a password.
secret() {
	[ -s "$dir/$1" ] || printf '%s\n' "$2" >"$dir/$1"
	chmod 0444 "$dir/$1"
}

# A role of its own for who migrates and for each process, see postgres-init.sh.
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
secret console_users '# People of the console, a line for each: pawl console adduser --print'
secret stripe_webhook_secret "whsec_$(random)"
echo "secrets are in $dir"
