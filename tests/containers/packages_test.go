//go:build containers

package containers

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// hostImage is a Debian with what the packages of distributions and their units need.
const hostImage = "localhost/millstream-host"

const hostFile = `FROM docker.io/library/debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends systemd rpm passwd && rm -rf /var/lib/apt/lists/*
`

// script runs lines of the shell as root in a new container, with the packages in /packages. It stops at the first line
// that fails.
func script(t *testing.T, packages, lines string) {
	t.Helper()
	_, all, err := try(t, "run", "--rm", "--network", "none", "--volume", packages+":/packages:ro", hostImage,
		"sh", "-euxc", lines)
	if err != nil {
		t.Errorf("%v: %s", err, all)
	}
}

// buildFrom builds an image of a Containerfile without a context.
func buildFrom(t *testing.T, name, text string) {
	t.Helper()
	cmd := podmanCommand(t, t.Context(), "build", "--pull=never", "--network", "host", "--tag", name, "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("podman build: %v: %s", err, out)
	}
}

var released sync.Once

// release returns a folder with the release of HEAD for this machine, which is built once.
func release(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(folder(t), "release")
	released.Do(func() {
		cmd := exec.Command("go", "run", "./internal/tools/release", "-target", "linux-"+runtime.GOARCH, "-out", dir)
		cmd.Dir = repository
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("release: %v: %s", err, out)
		}
	})
	return dir
}

// TestPackages installs the packages of HEAD for this machine with the programs of their distributions.
func TestPackages(t *testing.T) {
	build(t) // its base
	buildFrom(t, hostImage, hostFile)
	dir := release(t)
	for _, pattern := range []string{"*.deb", "*.rpm"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) != 1 {
			t.Fatalf("got %s %q, %v", pattern, found, err)
		}
	}
	// What a user has after either of them.
	const installed = `
millstream version
millstream-bench --help >/dev/null
id millstream
test -s /usr/share/man/man1/millstream.1 -o -s /usr/share/man/man1/millstream.1.gz
systemd-analyze verify --man=no /usr/lib/systemd/system/millstream-*.service
systemd-analyze security --offline=yes --no-pager millstream-scheduler.service | tail -1
`
	// The command line of the unit, as its user and with its folder of state.
	const unit = `
install -d -o millstream -m 700 /var/lib/millstream
setpriv --reuid millstream --regid millstream --clear-groups timeout 120 sh -euc '
	export "$(sed -n "s/^Environment=\"\(.*\)\"/\1/p" /usr/lib/systemd/system/millstream-scheduler.service)"
	millstream scheduler $MILLSTREAM_SCHEDULER_FLAGS --host 127.0.0.1 & pid=$!
	until millstream status tls://127.0.0.1:8786 --tls-dir /var/lib/millstream/certs 2>/dev/null; do sleep 0.2; done
	kill $pid; wait $pid'
test -d /var/lib/millstream/journal
`
	t.Run("deb", func(t *testing.T) {
		script(t, dir, `dpkg --install /packages/*.deb`+installed+unit+`
dpkg --verify millstream
echo '# mine' >>/etc/default/millstream
dpkg --force-confold --install /packages/*.deb # an upgrade
grep mine /etc/default/millstream
dpkg --remove millstream
test ! -e /usr/bin/millstream -a -e /etc/default/millstream
dpkg --purge millstream
test ! -e /etc/default/millstream`)
	})
	t.Run("rpm", func(t *testing.T) {
		script(t, dir, `rpm --install --nodeps /packages/*.rpm`+installed+unit+`
rpm --verify --nodeps millstream
echo '# mine' >>/etc/default/millstream
rpm --upgrade --force --nodeps /packages/*.rpm
grep mine /etc/default/millstream
rpm --erase millstream
test ! -e /usr/bin/millstream`)
	})
}
