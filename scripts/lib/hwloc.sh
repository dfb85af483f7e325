# shellcheck shell=bash
# hwloc's lstopo, which says how machines are wired, for the expected answers of package topology: Debian's package,
# unpacked under .local.

# setup_hwloc: .local/hwloc/lstopo.
setup_hwloc() {
	local dest=$LOCAL/hwloc stamp
	stamp=$(stamp_of "$(cat "$ROOT/scripts/lib/hwloc.sh")")
	if stamp_ok hwloc "$stamp" && [ -x "$dest/lstopo" ]; then
		return 0
	fi
	say "setup: hwloc into ${dest#"$ROOT"/}"
	unpack_debian "$dest" hwloc-nox
	cat >"$dest/lstopo" <<-E
		#!/bin/sh
		LD_LIBRARY_PATH=\$(echo $dest/usr/lib/*-linux-gnu*) exec $dest/usr/bin/lstopo-no-graphics "\$@"
	E
	chmod +x "$dest/lstopo"
	quietly hwloc.log "$dest/lstopo" --version || die "lstopo is unpacked but does not run" "read the lines above"
	stamp_put hwloc "$stamp"
}
