# shellcheck shell=bash
# Shared by every script: where things are, how to say things, and an environment that works with
# an empty or unwritable HOME. Sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
LOCAL=$ROOT/.local
UCX_DIR=$LOCAL/ucx
VENV=$LOCAL/venv

say() { printf '%s\n' "$*" >&2; }
# die MESSAGE FIX: an error always names the way out.
die() {
	printf 'error: %s\n' "$1" >&2
	[ $# -lt 2 ] || printf '  fix: %s\n' "$2" >&2
	exit 1
}
have() {
	local p
	p=$(type -P "$1") && [ -x "$p" ]
}
is_root() { [ "$(id -u)" = 0 ]; }

# quietly LOG COMMAND...: a second run prints nothing, a failed one prints everything.
quietly() {
	local log=$LOCAL/log/$1
	shift
	mkdir -p "$LOCAL/log"
	if ! "$@" >"$log" 2>&1; then
		cat "$log" >&2
		return 1
	fi
}

# The stamp of a step holds a hash of what the step depended on.
stamp_of() { printf '%s\n' "$@" | sha256sum | cut -d' ' -f1; }
stamp_ok() { [ -f "$LOCAL/stamp/$1" ] && [ "$(cat "$LOCAL/stamp/$1")" = "$2" ]; }
stamp_put() {
	mkdir -p "$LOCAL/stamp"
	printf '%s\n' "$2" >"$LOCAL/stamp/$1"
}

# Go, pip and staticcheck keep caches under HOME. Without a usable one they get a private one.
use_home() {
	if [ -n "${HOME:-}" ] && [ -d "$HOME" ] && [ -w "$HOME" ]; then
		return 0
	fi
	mkdir -p "$LOCAL/home"
	export HOME=$LOCAL/home
	unset XDG_CACHE_HOME XDG_CONFIG_HOME
}

# has_cc: the C compiler that cgo would use exists and finds the C library's headers.
has_cc() {
	local cc=${CC:-gcc}
	# shellcheck disable=SC2086 # CC may carry options
	printf '#include <stdlib.h>\n#include <dlfcn.h>\n' | $cc -E -o /dev/null - >/dev/null 2>&1
}

# use_cgo sets CGO_ENABLED unless the user did.
use_cgo() {
	if [ -z "${CGO_ENABLED:-}" ]; then
		CGO_ENABLED=1
		has_cc || CGO_ENABLED=0
	fi
	export CGO_ENABLED
}

# use_found puts what setup has found or made where the binary and the tests look for it.
# A variable that the user set stays as it is.
use_found() {
	local ucx_env=$LOCAL/ucx-library
	if [ -z "${MILLSTREAM_UCX_LIBRARY:-}" ] && [ -s "$ucx_env" ]; then
		MILLSTREAM_UCX_LIBRARY=$(cat "$ucx_env")
		export MILLSTREAM_UCX_LIBRARY
	fi
	if [ -z "${MILLSTREAM_PYTHON:-}" ] && [ -x "$VENV/bin/python" ]; then
		export MILLSTREAM_PYTHON=$VENV/bin/python
	fi
	if [ -z "${MILLSTREAM_DUCKDB:-}" ] && [ -x "$LOCAL/duckdb/env/bin/python" ]; then
		export MILLSTREAM_DUCKDB=$LOCAL/duckdb/env/bin/python
	fi
	export MILLSTREAM_UCX_VERSIONS=${MILLSTREAM_UCX_VERSIONS:-$UCX_DIR}
	[ ! -d "$LOCAL/bin" ] || export PATH=$PATH:$LOCAL/bin
}

# apt_install PACKAGE...: only root may; the caller decides what to do when it fails.
apt_install() {
	is_root && have apt-get || return 1
	say "setup: apt-get install $*"
	export DEBIAN_FRONTEND=noninteractive
	if quietly apt.log apt-get install -y -q --no-install-recommends "$@" 2>/dev/null; then
		return 0
	fi
	quietly apt.log apt-get update -q && quietly apt.log apt-get install -y -q --no-install-recommends "$@"
}
