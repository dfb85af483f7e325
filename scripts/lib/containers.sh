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

# setup_images: what scripts/images needs for the other architecture, and .local/containers/base-arm64.tar.
setup_images() {
	local dest=$LOCAL/containers stamp
	setup_containers
	[ "$(uname -m)" != aarch64 ] || return 0
	setup_arm64_cc
	{ have arch-test && have qemu-aarch64-static; } || apt_install arch-test qemu-user-static ||
		die "images for arm64 need arch-test and an emulator" "apt-get install arch-test qemu-user-static"
	runs_arm64 || register_arm64 || die "this machine runs no programs for arm64" \
		"as root: mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc, and install qemu-user-static again"
	stamp=$(stamp_of "$BASE_SUITE arm64")
	if ! stamp_ok containers-arm64 "$stamp" || [ ! -s "$dest/base-arm64.tar" ]; then
		say "setup: a base image of Debian $BASE_SUITE for arm64 in ${dest#"$ROOT"/} (some minutes, 180 MB, once)"
		quietly containers.log mmdebstrap --architectures=arm64 --format=tar --variant=minbase "$BASE_SUITE" "$dest/base.new" ||
			die "no base image of Debian $BASE_SUITE for arm64" "read the lines above; Debian's packages must be reachable the first time"
		mv "$dest/base.new" "$dest/base-arm64.tar"
		stamp_put containers-arm64 "$stamp"
	fi
}

runs_arm64() { arch-test arm64 >/dev/null 2>&1; }

# register_arm64: makes the kernel run programs for arm64 by Debian's static emulator, also in containers, until it is
# restarted. The package qemu-user-static has done so where systemd or binfmt-support runs.
register_arm64() {
	local at=/proc/sys/fs/binfmt_misc magic mask
	is_root || return 1
	[ -e $at/register ] || mount -t binfmt_misc binfmt_misc $at || return 1
	# Header of ELF: 64 bits, little endian, an executable or a shared object, for aarch64. F: the emulator is opened now.
	magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
	mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
	[ ! -e $at/qemu-aarch64 ] || echo -1 >$at/qemu-aarch64
	printf '%s' ":qemu-aarch64:M::$magic:$mask:/usr/bin/qemu-aarch64-static:F" >$at/register
	runs_arm64
}

runtime_of() { [ ! -f "$1" ] || sed -n 's/^runtime = "\(.*\)"/\1/p' "$1"; }
