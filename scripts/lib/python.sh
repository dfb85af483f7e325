# shellcheck shell=bash
# Python: an interpreter new enough for the peers, a pip, and the virtual environment of the interop tests.

PYTHON_MIN=3.11

python_ok() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# find_python sets PYTHON to an interpreter that is new enough.
find_python() {
	local p
	for p in python3 python3.14 python3.13 python3.12 python3.11; do
		if have "$p" && python_ok "$p"; then
			PYTHON=$(command -v "$p")
			return 0
		fi
	done
	return 1
}

need_python() {
	find_python && return 0
	apt_install python3 python3-venv || true
	find_python || die "no Python $PYTHON_MIN or newer found (${1:-it is needed by the interop tests})" \
		"apt-get install python3 python3-venv, or put a newer python3 first in PATH"
}

# make_venv DIR: python3 on Debian comes without venv and pip.
make_venv() {
	quietly venv.log "$PYTHON" -m venv "$1" 2>/dev/null && return 0
	rm -rf "$1"
	apt_install python3-venv || true
	quietly venv.log "$PYTHON" -m venv "$1" || die "$PYTHON cannot make a virtual environment" "apt-get install python3-venv"
}

# need_pip sets PIP to a command that can download wheels.
need_pip() {
	need_python "it fetches libucx"
	if "$PYTHON" -m pip --version >/dev/null 2>&1; then
		PIP=("$PYTHON" -m pip)
		return 0
	fi
	[ -x "$LOCAL/pip/bin/pip" ] || make_venv "$LOCAL/pip"
	PIP=("$LOCAL/pip/bin/python" -m pip)
}

# download FOLDER ARGS...: one wheel per requirement, never built from source.
download() {
	local dir=$1
	shift
	mkdir -p "$dir"
	quietly pip.log "${PIP[@]}" download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$dir" "$@"
}

setup_peers() {
	local req=$ROOT/tests/interop/requirements.txt stamp
	need_python
	stamp=$(stamp_of "$(cat "$req")" "$("$PYTHON" -c 'import sys; print(sys.version, sys.executable)')")
	if stamp_ok peers "$stamp" && [ -x "$VENV/bin/python" ]; then
		return 0
	fi
	say "setup: Python peers into ${VENV#"$ROOT"/} (some 450 MB, once)"
	rm -rf "$VENV"
	make_venv "$VENV"
	quietly pip.log "$VENV/bin/python" -m pip install -q --disable-pip-version-check --only-binary=:all: -r "$req" ||
		die "the Python peers could not be installed" "read the lines above; the Python package index must be reachable the first time"
	quietly peers.log timeout 120 "$VENV/bin/python" "$ROOT/tests/interop/check_peers.py" ||
		die "the Python peers are installed but do not work" "read the lines above, then rm -rf $VENV and run again"
	stamp_put peers "$stamp"
}

# setup_dask: the releases of Dask that the interop tests speak with, each in a folder of its own that stands before
# the virtual environment's packages.
setup_dask() {
	local version dest stamp
	while read -r version; do
		case $version in '' | '#'*) continue ;; esac
		dest=$LOCAL/dask/$version
		stamp=$(stamp_of "$version" "$("$VENV/bin/python" -c 'import sys; print(sys.version)')")
		if stamp_ok "dask-$version" "$stamp" && [ -d "$dest/distributed" ]; then
			continue
		fi
		say "setup: Dask $version into ${dest#"$ROOT"/}"
		rm -rf "$dest"
		quietly pip.log "$VENV/bin/python" -m pip install -q --disable-pip-version-check --only-binary=:all: --no-deps --no-compile --target "$dest" \
			"dask==$version" "distributed==$version" ||
			die "Dask $version could not be installed" "read the lines above; the Python package index must be reachable the first time"
		stamp_put "dask-$version" "$stamp"
	done <"$ROOT/tests/interop/dask-versions.txt"
	while read -r version; do
		case $version in '' | '#'*) continue ;; esac
		dask_env "$LOCAL/dask/$version"
	done <"$ROOT/tests/interop/dask-versions.txt"
}

# DISTRIBUTED_TESTS is where the tests of distributed, which its wheel does not ship, come from.
DISTRIBUTED_TESTS=${MILLSTREAM_DISTRIBUTED_SOURCE:-https://github.com/dask/distributed}

# setup_suite: pytest, and the tests of the release of distributed that the peers have, for `make dask-suite`.
setup_suite() {
	local req=$ROOT/tests/dask/suite/requirements.txt dest=$LOCAL/suite stamp version site
	version=$("$VENV/bin/python" -c 'import distributed; print(distributed.__version__)')
	stamp=$(stamp_of "$(cat "$req")" "$version" "$("$VENV/bin/python" -c 'import sys; print(sys.version)')")
	if ! stamp_ok suite "$stamp"; then
		say "setup: pytest and the tests of distributed $version into ${dest#"$ROOT"/}"
		rm -rf "$dest"
		mkdir -p "$dest"
		site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
		quietly pip.log "$VENV/bin/python" -m pip install -q --disable-pip-version-check --only-binary=:all: --no-deps --target "$dest/packages" -r "$req" ||
			die "pytest could not be installed" "read the lines above; the Python package index must be reachable the first time"
		quietly suite.log git clone -q --depth 1 --branch "$version" "$DISTRIBUTED_TESTS" "$dest/clone" ||
			die "the tests of distributed $version could not be fetched" "set MILLSTREAM_DISTRIBUTED_SOURCE to a clone of its repository"
		# Functions of a test's module travel by its name, so the tests are where they belong.
		cp -r "$site/distributed" "$dest/packages/"
		mv "$dest/clone/distributed/tests" "$dest/packages/distributed/tests"
		touch "$dest/packages/distributed/tests/__init__.py"
		rm -rf "$dest/clone"
		stamp_put suite "$stamp"
	fi
	dask_env "$dest" "$dest/packages"
}

# dask_env DIR [PACKAGES]: an interpreter, DIR/env/bin/python, that finds the packages in DIR and then those of the
# virtual environment, without any variable: children of a scheduler have an empty environment.
dask_env() {
	local env=$1/env site
	[ ! -x "$env/bin/python" ] || return 0
	site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	mkdir -p "$env/bin" "$env/lib/$(basename "$(dirname "$site")")/site-packages"
	cp "$VENV/pyvenv.cfg" "$env/"
	printf '%s\nimport site; site.addsitedir("%s")\n' "${2:-$1}" "$site" >"$env/lib/$(basename "$(dirname "$site")")/site-packages/release.pth"
	ln -sfn "$(readlink -f "$VENV/bin/python")" "$env/bin/python"
}

# setup_downstream NAME REQUIREMENTS...: packages that are built on Dask, next to the peers, in .local/NAME.
setup_downstream() {
	local name=$1 dest=$LOCAL/$1 stamp files=() file
	shift
	for file; do
		files+=(-r "$ROOT/tests/downstream/$file")
	done
	stamp=$(stamp_of "$(cd "$ROOT/tests/downstream" && cat "$@")" "$("$VENV/bin/python" -c 'import sys; print(sys.version)')")
	if ! stamp_ok "$name" "$stamp"; then
		say "setup: downstream packages into ${dest#"$ROOT"/}"
		rm -rf "$dest"
		quietly pip.log "$VENV/bin/python" -m pip install -q --disable-pip-version-check --only-binary=:all: --no-deps --target "$dest/packages" "${files[@]}" ||
			die "the downstream packages could not be installed" "read the lines above; the Python package index must be reachable the first time"
		stamp_put "$name" "$stamp"
	fi
	dask_env "$dest" "$dest/packages"
}

# setup_sklearn: scikit-learn beside the peers, for `millstream bench kmeans --peers` and the golden files of k-means.
setup_sklearn() {
	local req=$ROOT/tests/interop/sklearn.txt dest=$LOCAL/sklearn stamp
	stamp=$(stamp_of "$(cat "$req")" "$("$VENV/bin/python" -c 'import sys; print(sys.version)')")
	if ! stamp_ok sklearn "$stamp"; then
		say "setup: scikit-learn into ${dest#"$ROOT"/} (some 150 MB, once)"
		rm -rf "$dest"
		quietly pip.log "$VENV/bin/python" -m pip install -q --disable-pip-version-check --only-binary=:all: --no-deps --target "$dest/packages" -r "$req" ||
			die "scikit-learn could not be installed" "read the lines above; the Python package index must be reachable the first time"
		stamp_put sklearn "$stamp"
	fi
	dask_env "$dest" "$dest/packages"
}

# setup_duckdb: DuckDB next to the peers, with whose answers the tests of frames compare theirs.
setup_duckdb() {
	local req=$ROOT/tests/interop/duckdb.txt dest=$LOCAL/duckdb stamp
	stamp=$(stamp_of "$(cat "$req")" "$("$VENV/bin/python" -c 'import sys; print(sys.version)')")
	if ! stamp_ok duckdb "$stamp"; then
		say "setup: DuckDB into ${dest#"$ROOT"/} (some 60 MB, once)"
		rm -rf "$dest"
		quietly pip.log "$VENV/bin/python" -m pip install -q --disable-pip-version-check --only-binary=:all: --no-deps --target "$dest/packages" -r "$req" ||
			die "DuckDB could not be installed" "read the lines above; the Python package index must be reachable the first time"
		stamp_put duckdb "$stamp"
	fi
	dask_env "$dest" "$dest/packages"
}
