# shellcheck shell=bash
# Podman, and a base image from Debian's packages: no image registry is needed.

BASE_SUITE=bookworm

has_podman() { have podman && have mmdebstrap; }

# setup_containers: .local/containers/{base.tar,containers.conf}.
setup_containers() {
	local dest=$LOCAL/containers stamp
	if ! has_podman && ! { apt_install podman crun runc mmdebstrap debian-archive-keyring && has_podman; }; then
		die "make test-containers needs podman and mmdebstrap" "apt-get install podman crun mmdebstrap"
	fi
	stamp=$(stamp_of "$BASE_SUITE")
	mkdir -p "$dest"
	if ! stamp_ok containers "$stamp" || [ ! -s "$dest/base.tar" ]; then
		say "setup: a base image of Debian $BASE_SUITE in ${dest#"$ROOT"/} (about a minute, 180 MB, once)"
		quietly containers.log mmdebstrap --format=tar --variant=minbase --include=ca-certificates "$BASE_SUITE" "$dest/base.new" ||
			die "no base image of Debian $BASE_SUITE" "read the lines above; Debian's packages must be reachable the first time"
		mv "$dest/base.new" "$dest/base.tar"
		stamp_put containers "$stamp"
	fi
	container_settings "$dest"
}

# container_settings FOLDER: writes containers.conf for the first runtime that starts a container here. Limits of open files
# and processes are low ones: podman's need CAP_SYS_RESOURCE even for root. Not every crun runs with cgroups of both versions.
container_settings() {
	local runtime podman=(podman --root "$1/storage" --runroot "$1/run")
	export CONTAINERS_CONF=$1/containers.conf
	for runtime in "$(runtime_of "$CONTAINERS_CONF")" crun runc; do
		if [ -z "$runtime" ] || ! have "$runtime"; then
			continue
		fi
		printf '[containers]\ndefault_ulimits = ["nofile=8192:8192", "nproc=4096:4096"]\n[engine]\nruntime = "%s"\n' "$runtime" >"$CONTAINERS_CONF"
		"${podman[@]}" image exists millstream-base || quietly podman.log "${podman[@]}" import "$1/base.tar" millstream-base
		! quietly podman.log "${podman[@]}" run --rm --network none millstream-base true 2>/dev/null || return 0
	done
	cat "$LOCAL/log/podman.log" >&2
	die "podman starts no container with crun or runc" "read the lines above"
}

runtime_of() { [ ! -f "$1" ] || sed -n 's/^runtime = "\(.*\)"/\1/p' "$1"; }
