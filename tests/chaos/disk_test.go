//go:build chaos

package chaos

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
)

// One worker's disk is full when it has to spill: it says so, and what it cannot keep is computed elsewhere.
func TestFullDisk(t *testing.T) {
	if !inside(t) {
		return
	}
	small, large := t.TempDir(), t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=24m"); err != nil {
		t.Fatalf("a small file system: %v", err)
	}
	defer syscall.Unmount(small, syscall.MNT_DETACH)
	c, cl := local(t, cluster.Config{Workers: -1})
	tls := filepath.Join(t.TempDir(), "tls")
	if _, err := c.WriteCredentials(tls); err != nil {
		t.Fatal(err)
	}
	worker := func(name, dir string) *child {
		return program(t, "worker "+name, nil, "worker", c.Address(), "--tls-dir", tls, "--name", name, "--nthreads",
			"1", "--memory-limit", fmt.Sprint(256<<20),
			"--no-dashboard", "--data-connections", "none", "--local-directory", dir, "--retire-timeout", "3s",
			"--log-level", "info")
	}
	full := worker("full", small)
	roomy := worker("roomy", large)
	defer func() { full.stop(); roomy.stop() }()
	await(t, "both workers are there", func() bool { return registered(t, c, "") == 2 })

	const n, size = 64, 16 << 20
	ctx := bounded(t)
	start := time.Now()
	var blocks []*client.Future[[]byte]
	for i := range n {
		blocks = append(blocks, block.Submit(ctx, cl, client.Val(uint64(i)), client.Val(size)))
	}
	if err := client.Wait(ctx, blocks); err != nil {
		t.Fatal(err)
	}
	inSmall, inLarge := onDisk(small), onDisk(large)
	digests := digest.MapArgs(ctx, cl, client.Args(blocks))
	got, err := client.Gather(ctx, digests)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if want := digestOf(makeBlock(uint64(i), size)); v != want {
			t.Fatalf("block %d: digest %x, it must be %x", i, v, want)
		}
	}
	said := 0
	var line string
	for l := range strings.Lines(full.logs.String()) {
		if strings.Contains(l, "no space left") || strings.Contains(l, "disk is full") {
			said++
			line = strings.TrimSpace(l)
		}
	}
	t.Logf("%d results of %d MiB in %v with two workers of 256 MiB; %d MiB on the small disk, %d MiB on the other; "+
		"the worker said %d times: %s",
		n, size>>20, time.Since(start).Round(time.Millisecond), inSmall>>20, inLarge>>20, said, line)
	if said == 0 {
		t.Error("the worker did not say that its disk is full")
	}
}
