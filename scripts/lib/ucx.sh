# shellcheck shell=bash
# libucx: the system's, or the releases on the Python package index unpacked under .local/ucx.

UCX_DEFAULT=1.21.0
# The releases of `make test`: oldest, middle, newest. 1.21.0 comes with the Python peers.
# shellcheck disable=SC2034 # used by scripts/setup
UCX_TESTED=(1.14.1.post2 1.21.0 1.22.0)
UCX_PINS=$ROOT/scripts/ucx-versions.txt

ucx_versions() { sed -n 's/^libucx-cu12==\([^ ]*\) .*/\1/p' "$UCX_PINS"; }

# system_ucx: a libucp.so.0 that the dynamic loader finds by itself.
system_ucx() {
	local ldconfig=ldconfig known dir
	have ldconfig || ldconfig=/sbin/ldconfig
	known=$("$ldconfig" -p 2>/dev/null) || known=
	[[ $known != *"libucp.so.0 "* ]] || return 0
	local IFS=:
	for dir in ${LD_LIBRARY_PATH:-}; do
		[ ! -e "$dir/libucp.so.0" ] || return 0
	done
	return 1
}

setup_libucx() {
	if [ -n "${MILLSTREAM_UCX_LIBRARY:-}" ]; then
		[ -e "$MILLSTREAM_UCX_LIBRARY" ] || die "MILLSTREAM_UCX_LIBRARY names $MILLSTREAM_UCX_LIBRARY, which does not exist" \
			"correct it, or unset it to let setup find a libucp.so.0"
		return 0
	fi
	if system_ucx || { apt_install libucx0 && system_ucx; }; then
		rm -f "$LOCAL/ucx-library"
		return 0
	fi
	setup_ucx_version libucx-cu12 "$UCX_DEFAULT"
	mkdir -p "$LOCAL"
	printf '%s\n' "$UCX_DIR/$UCX_DEFAULT/lib/libucp.so.0" >"$LOCAL/ucx-library"
}

# setup_ucx_version PACKAGE VERSION [BASE]: unpacks one pinned wheel to BASE/VERSION, by default .local/ucx/VERSION.
setup_ucx_version() {
	local package=$1 version=$2 base=${3:-$UCX_DIR} dest pin stamp tmp
	dest=$base/$version
	pin=$(grep "^$package==$version " "$UCX_PINS") || die "UCX $version ($package) has no pinned checksum" \
		"choose one of: $(ucx_versions | tr '\n' ' ')or add it to scripts/ucx-versions.txt"
	stamp=$(stamp_of "$pin")
	if stamp_ok "$package-$version" "$stamp" && [ -e "$dest/lib/libucp.so.0" ]; then
		return 0
	fi
	say "setup: $package $version into ${dest#"$ROOT"/}"
	need_pip
	mkdir -p "$base"
	tmp=$(mktemp -d "$base/.new.XXXXXX")
	printf '%s\n' "$pin" >"$tmp/pin.txt"
	if ! download "$tmp" --require-hashes -r "$tmp/pin.txt"; then
		rm -rf "$tmp"
		die "$package $version could not be fetched with its pinned checksum" "the Python package index must be reachable the first time"
	fi
	"$PYTHON" -m zipfile -e "$tmp"/*.whl "$tmp"
	tidy_ucx "$tmp/libucx"
	# The libraries' run path leads two folders up to PACKAGE.libs; its file names carry hashes, so releases share it.
	mkdir -p "$base/${package//-/_}.libs"
	[ ! -d "$tmp/${package//-/_}.libs" ] || cp -f "$tmp/${package//-/_}.libs"/* "$base/${package//-/_}.libs/"
	rm -rf "$dest"
	mv "$tmp/libucx" "$dest"
	rm -rf "$tmp"
	stamp_put "$package-$version" "$stamp"
}

# tidy_ucx FOLDER: wheels carry static libraries, and three copies where a link was.
tidy_ucx() {
	local f base
	find "$1" \( -name '*.a' -o -name '*.la' \) -delete
	find "$1/lib" -name '*.so.0.0.0' | while read -r f; do
		base=${f%.so.0.0.0}
		ln -sf "$(basename "$f")" "$base.so.0"
		ln -sf "$(basename "$f")" "$base.so"
	done
	chmod +x "$1"/bin/*
	# The binaries have no run path to their own libraries: without this they would take the system's.
	cat >"$1/perftest" <<-'E'
		#!/bin/sh
		here=$(dirname "$(readlink -f "$0")")
		LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/bin/ucx_perftest" "$@"
	E
	chmod +x "$1/perftest"
}

# setup_perftest: the C peer of the benchmarks, of the same release as the library in use where possible.
setup_perftest() {
	have ucx_perftest && return 0
	if [ ! -e "$LOCAL/ucx-library" ] && apt_install ucx-utils && have ucx_perftest; then
		return 0
	fi
	setup_ucx_version libucx-cu12 "$UCX_DEFAULT"
	mkdir -p "$LOCAL/bin"
	ln -sf "../ucx/$UCX_DEFAULT/perftest" "$LOCAL/bin/ucx_perftest"
}
