//go:build chaos

package chaos

import (
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
)

// Workers with little memory hold more data than fits: it goes to disk and comes back, nothing is lost.
func TestLittleMemory(t *testing.T) {
	limit, total, size := int64(256<<20), pick(2<<30, 512<<20), 16<<20
	const workers = 1
	dir := t.TempDir()
	c, cl := local(t, cluster.Config{Workers: workers, Threads: 2, MemoryLimit: limit, LocalDirectory: dir})
	n := total / size
	ctx := bounded(t)
	start := time.Now()
	var blocks []*client.Future[[]byte]
	for i := range n {
		blocks = append(blocks, block.Submit(ctx, cl, client.Val(uint64(i)), client.Val(size)))
	}
	// All of them are kept while each is read once more.
	if err := client.Wait(ctx, blocks); err != nil {
		t.Fatal(err)
	}
	spilled := onDisk(dir)
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
	starts := 0
	for _, w := range c.Workers() {
		starts += w.Starts
	}
	t.Logf("%d MiB in %d results through %d worker of %d MiB in %v; %d MiB were on disk at once; worker processes "+
		"started %d times",
		total>>20, n, workers, limit>>20, time.Since(start).Round(time.Millisecond), spilled>>20, starts)
	if spilled < int64(total)-limit {
		t.Errorf("only %d bytes were on disk, though %d had to be kept with a limit of %d", spilled, total, limit)
	}
}

// onDisk is the size of all files below a folder.
func onDisk(dir string) (sum int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
