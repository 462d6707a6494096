#!/bin/sh
# Makes sure that the PostgreSQL server programs are on this machine, for `make test` and `make dev`.
# Says nothing when they are. Installs them on Debian and Ubuntu when the user may; else names the command.
# The places and the oldest version are those of internal/devcluster/binaries.go.
set -eu

major_min=14

# usable DIR: DIR holds initdb and a postgres that is new enough.
usable() {
	[ -x "$1/postgres" ] && [ -x "$1/initdb" ] || return 1
	major=$("$1/postgres" --version 2>/dev/null | sed -n 's/.*) \([0-9][0-9]*\).*/\1/p')
	[ -n "$major" ] && [ "$major" -ge "$major_min" ]
}

found() {
	if [ -n "${SAGACITY_PG_BIN:-}" ]; then
		usable "$SAGACITY_PG_BIN"
		return
	fi
	if program=$(command -v postgres) && usable "$(dirname "$program")"; then
		return 0
	fi
	for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin \
		/opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin; do
		if usable "$dir"; then
			return 0
		fi
	done
	return 1
}

fail() {
	echo "ensure-postgres: $1" >&2
	exit 1
}

# as_root COMMAND...: runs it as root without asking for a password.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

may_install() {
	[ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; }
}

# hint: the command that installs the server on this system.
hint() {
	sudo='sudo '
	[ "$(id -u)" -ne 0 ] || sudo=''
	if [ "$(uname -s)" = Darwin ]; then
		echo 'brew install postgresql@17'
	elif command -v apt-get >/dev/null 2>&1; then
		echo "${sudo}apt-get install -y postgresql"
	elif command -v dnf >/dev/null 2>&1; then
		echo "${sudo}dnf install -y postgresql-server postgresql-contrib"
	elif command -v apk >/dev/null 2>&1; then
		echo "${sudo}apk add postgresql postgresql-contrib"
	elif command -v pacman >/dev/null 2>&1; then
		echo "${sudo}pacman -S --noconfirm postgresql"
	else
		echo "your package manager's PostgreSQL server package"
	fi
}

if found; then
	exit 0
fi
if [ -n "${SAGACITY_PG_BIN:-}" ]; then
	fail "SAGACITY_PG_BIN=$SAGACITY_PG_BIN holds no postgres $major_min or newer with initdb: correct or unset it"
fi
if ! command -v apt-get >/dev/null 2>&1 || ! may_install; then
	fail "no PostgreSQL server $major_min or newer found; install it with: $(hint)"
fi

echo 'ensure-postgres: PostgreSQL is missing: installing Debian package postgresql (no system cluster is created)'
# Debian's package would create and start a server for the whole system; ours are private. This setting
# matters during the installation only: afterwards the package's own file takes its place.
conf=/etc/postgresql-common/createcluster.conf
restore_conf() {
	if [ -e "/usr/share/postgresql-common/createcluster.conf" ]; then
		as_root cp /usr/share/postgresql-common/createcluster.conf "$conf"
	else # nothing was installed
		as_root rm -f "$conf"
		as_root rmdir "${conf%/*}" 2>/dev/null || true
	fi
}
if [ ! -e "$conf" ]; then
	trap restore_conf EXIT
	trap 'exit 1' HUP INT TERM
	as_root mkdir -p "${conf%/*}"
	echo 'create_main_cluster = false' | as_root tee "$conf" >/dev/null
fi
as_root apt-get update -qq || fail "apt-get update failed; install it yourself with: $(hint)"
as_root env DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 apt-get install -y -qq --no-install-recommends \
	postgresql >/dev/null ||
	fail "apt-get install failed; install it yourself with: $(hint)"
found || fail "the installed PostgreSQL is older than $major_min; install a newer one (https://www.postgresql.org/download/)"
