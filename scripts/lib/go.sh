# shellcheck shell=bash
# The Go toolchain and the tools that are built with it.

STATICCHECK_VERSION=v0.8.2
VULNCHECK_VERSION=v1.8.0
ACTIONLINT_VERSION=v1.7.12

check_go() {
	local want have_version
	want=$(sed -n 's/^go //p' "$ROOT/go.mod")
	have go || die "no go command in PATH; Go $want or newer is needed" \
		"install Go from https://go.dev/dl and put its bin folder in PATH"
	# Run inside the module: with GOTOOLCHAIN=auto an older go fetches the version that go.mod asks for.
	have_version=$(cd "$ROOT" && go env GOVERSION 2>&1) || die "go cannot load this module: $have_version" \
		"install Go $want or newer from https://go.dev/dl (or set GOTOOLCHAIN=auto)"
	[[ $have_version != devel* ]] || return 0
	have_version=${have_version#go}
	have_version=${have_version%%[!0-9.]*}
	if [ "$(printf '%s\n%s\n' "$want" "$have_version" | sort -V | head -1)" != "$want" ]; then
		die "Go $have_version is too old; Go $want or newer is needed" "install it from https://go.dev/dl"
	fi
}

check_cc() {
	[ "${CGO_ENABLED:-1}" = 0 ] || has_cc || say "setup: no C compiler (${CC:-gcc}) with libc headers: building with CGO_ENABLED=0, ucx is off; apt-get install gcc libc6-dev turns it on"
}

# need_cc: for what makes no sense without cgo.
need_cc() {
	has_cc || die "$1 needs a C compiler (${CC:-gcc}) with libc headers: the race detector and the ucx package use cgo" \
		"apt-get install gcc libc6-dev"
}

# setup_arm64_cc: a C compiler for arm64. Without it programs for arm64 are built without cgo.
setup_arm64_cc() {
	[ "$(uname -m)" != aarch64 ] || return 0
	have aarch64-linux-gnu-gcc || apt_install gcc-aarch64-linux-gnu libc6-dev-arm64-cross ||
		say "setup: no aarch64-linux-gnu-gcc: programs for arm64 are built without cgo; apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
}

# need_arm64: what runs tests for arm64 on another machine.
need_arm64() {
	[ "$(uname -m)" != aarch64 ] || return 0
	setup_arm64_cc
	have aarch64-linux-gnu-gcc && have qemu-aarch64 || apt_install qemu-user || true
	{ have aarch64-linux-gnu-gcc && have qemu-aarch64; } ||
		die "make test-arm64 needs aarch64-linux-gnu-gcc and qemu-aarch64" "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
}

# setup_tool NAME VERSION PACKAGE: builds a program into .local/bin.
setup_tool() {
	local stamp
	stamp=$(stamp_of "$2" "$(cd "$ROOT" && go env GOVERSION)")
	if stamp_ok "$1" "$stamp" && [ -x "$LOCAL/bin/$1" ]; then
		return 0
	fi
	say "setup: building $1 $2 (about a minute, once)"
	mkdir -p "$LOCAL/bin"
	# Outside the module, so that go.mod stays free of tools.
	(cd / && GOBIN=$LOCAL/bin CGO_ENABLED=0 GOFLAGS=-buildvcs=false quietly "$1.log" go install "$3@$2") ||
		die "$1 $2 could not be built" "read the lines above; the Go module proxy must be reachable the first time"
	stamp_put "$1" "$stamp"
}

setup_staticcheck() { setup_tool staticcheck "$STATICCHECK_VERSION" honnef.co/go/tools/cmd/staticcheck; }
setup_vulncheck() { setup_tool govulncheck "$VULNCHECK_VERSION" golang.org/x/vuln/cmd/govulncheck; }
setup_actionlint() { setup_tool actionlint "$ACTIONLINT_VERSION" github.com/rhysd/actionlint/cmd/actionlint; }
