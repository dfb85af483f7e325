//go:build cgo

package native_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/clique/native"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	cluster.Main()
	os.Exit(leak.Main(m))
}

// more has algorithms that use every operation, or fail in some way.
const more = `
#include "millstream_native.h"
#include <cstring>
#include <vector>
extern "C" {
extern const unsigned int millstream_native_abi;
const unsigned int millstream_native_abi = MS_NATIVE_ABI;

#define WANT(x) if (!(x)) return call->fail(call->comm, #x)

int every(const ms_call *call) {
	ms_comm *c = call->comm;
	const ms_ops *o = call->ops;
	int n = call->ranks, me = call->rank;
	WANT(call->abi == MS_NATIVE_ABI && call->size == sizeof(ms_call) && o->size == sizeof(ms_ops));
	WANT(!o->barrier(c));
	std::vector<int64_t> all(n), mine(1, me);
	WANT(!o->all_gather(c, mine.data(), all.data(), 1, MS_INT64));
	for (int i = 0; i < n; i++) WANT(all[i] == i);
	WANT(!o->gather(c, mine.data(), all.data(), 1, MS_INT64, 1));
	int64_t part = -1;
	WANT(!o->scatter(c, all.data(), &part, 1, MS_INT64, n - 1));
	WANT(part == me);
	WANT(!o->broadcast(c, &part, 1, MS_INT64, 1));
	WANT(part == 1);
	WANT(!o->reduce_scatter(c, all.data(), &part, 1, MS_INT64, MS_MAX));
	WANT(part == me);
	std::vector<int64_t> from(n);
	WANT(!o->all_to_all(c, all.data(), from.data(), 1, MS_INT64));
	for (int i = 0; i < n; i++) WANT(from[i] == me);
	std::vector<float> big(1 << 16, 1.0f);
	WANT(!o->all_reduce(c, big.data(), big.data(), big.size(), MS_FLOAT32, MS_SUM));
	WANT(big[12345] == (float)n);
	uint64_t got = 0;
	if (me == 0) WANT(!o->send(c, "hello", 5, 1, 1ull << 63));
	char text[8] = {};
	if (me == 1) { WANT(!o->recv(c, text, sizeof text, 0, 1ull << 63, &got)); WANT(got == 5 && !strcmp(text, "hello")); }
	// What cannot be is refused, and says so.
	WANT(o->all_reduce(c, all.data(), all.data(), 1, 99, MS_SUM) == MS_INVALID && strstr(o->error(c), "kind 99"));
	WANT(o->all_reduce(c, all.data(), all.data(), 1, MS_INT8, 99) == MS_INVALID);
	WANT(o->all_reduce(c, all.data(), all.data(), 1ull << 63, MS_INT64, MS_SUM) == MS_INVALID);
	WANT(o->all_reduce(c, nullptr, all.data(), 1, MS_INT64, MS_SUM) == MS_INVALID);
	WANT(o->broadcast(c, all.data(), 1, MS_INT64, n) == MS_MISMATCH);
	ms_column empty = {nullptr, 1, MS_INT8, MS_HOST, -1, 0}, device = {all.data(), 1, MS_INT8, MS_DEVICE, 0, 0};
	WANT(call->emit(c, &empty) == MS_INVALID && call->emit(c, &device) == MS_INVALID);
	ms_column out = {all.data(), (uint64_t)n, MS_INT64, MS_HOST, -1, 0};
	return call->emit(c, &out);
}

int fails(const ms_call *call) {
	if (call->rank == 1) return call->fail(call->comm, "no luck");
	return call->ops->barrier(call->comm);
}
int code(const ms_call *) { return 42; }
}
`

var libraries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "millstream-native-")
	if err != nil {
		return "", err
	}
	for name, text := range map[string]string{"millstream_native.h": native.Header, "sums.cpp": native.MockSource,
		"more.cpp":     more,
		"stranger.cpp": "extern \"C\" int sums() { return 0; }\n", "old.cpp": "extern \"C\" { extern const unsigned " +
			"int millstream_native_abi; const unsigned int millstream_native_abi = 77; }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"sums", "more", "stranger", "old"} {
		cmd := exec.Command("c++", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o",
			filepath.Join(dir, "lib"+name+".so"), filepath.Join(dir, name+".cpp"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w: %s", name, err, out)
		}
	}
	return dir, nil
})

// build compiles the libraries and lets Run find them, also in processes of workers.
func build(t *testing.T) string {
	t.Helper()
	dir, err := libraries()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(native.PathVariable, "relative:"+dir)
	return dir
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// form makes a cluster and a clique of all its workers.
func form(t *testing.T, opts cluster.Config) *clique.Clique {
	t.Helper()
	ctx := testContext(t)
	opts.Threads, opts.MemoryLimit = 1, cluster.NoMemoryLimit
	k, err := cluster.Local(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	c, err := k.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	q, err := clique.Form(ctx, c, clique.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// columns are the partitions of ranks, with one column each.
func columns(q *clique.Clique) []client.Arg[[][]float64] {
	out := make([]client.Arg[[][]float64], q.Size())
	for i := range out {
		out[i] = client.Val([][]float64{{float64(i), 1}, {10, 10}})
	}
	out[q.Size()-1] = client.Val([][]float64{}) // one has no partition
	return out
}

// The mock of C++: local sums, a reduce, a result frame, in processes and goroutines.
func TestSums(t *testing.T) {
	build(t)
	for _, mode := range []cluster.Mode{cluster.Goroutines, cluster.Processes} {
		t.Run(mode.String(), func(t *testing.T) {
			q := form(t, cluster.Config{Workers: 3, Mode: mode})
			ctx := testContext(t)
			for parameters, want := range map[string]string{"": "[[[3] [40]] [] []]",
				"all": "[[[3] [40]] [[3] [40]] [[3] [40]]]"} {
				f, err := native.Submit(ctx, q, "libsums.so:sums", parameters, columns(q))
				if err != nil {
					t.Fatal(err)
				}
				out, err := client.Gather(ctx, f)
				if err != nil || fmt.Sprint(out) != want {
					t.Errorf("%q: %v, %v; want %s", parameters, out, err, want)
				}
			}
		})
	}
}

// every runs an algorithm of libmore.
var every = clique.Func("native.every", func(ctx context.Context, r *clique.Rank, path string) ([]int64, error) {
	l, err := native.Open(path)
	if err != nil {
		return nil, err
	}
	a, err := l.Algorithm("every")
	if err != nil {
		return nil, err
	}
	out, err := a.Run(ctx, r, native.Call{Parameters: []byte("x"),
		Partitions: []native.Partition{{native.ColumnOf([]int32{1, 2})}, {}}})
	if err != nil {
		return nil, err
	}
	if _, err := native.Values[int32](out[0]); err == nil {
		return nil, errors.New("a column of int64 is one of int32")
	}
	return native.Values[int64](out[0])
})

// Every operation of the interface, and its errors.
func TestOperations(t *testing.T) {
	dir := build(t)
	q := form(t, cluster.Config{Workers: 3, Mode: cluster.Goroutines})
	out, err := every.RunAll(testContext(t), q, filepath.Join(dir, "libmore.so"))
	if err != nil || fmt.Sprint(out) != "[[0 1 2] [0 1 2] [0 1 2]]" {
		t.Errorf("%v, %v", out, err)
	}
}

// What fails says what and why, on every rank.
func TestFailures(t *testing.T) {
	build(t)
	q := form(t, cluster.Config{Workers: 2, Mode: cluster.Goroutines})
	ctx := testContext(t)
	for algorithm, want := range map[string][]string{
		"libmore.so:fails":    {"rank 1 (", "fails of ", "returned 1: no luck"},
		"libmore.so:code":     {"code of ", "returned 42"},
		"libmore.so:none":     {`does not export "none"`},
		"libnone.so:sums":     {"not found in MILLSTREAM_NATIVE_PATH"},
		"libstranger.so:sums": {"has no millstream_native_abi"},
		"libold.so:sums":      {"was compiled against version 77"},
		"../libmore.so:fails": {"without a folder"},
		"more.cpp:fails":      {"native: "},
		"libmore.so":          {"invalid algorithm"},
	} {
		f, err := native.Submit(ctx, q, algorithm, "", columns(q))
		if err != nil {
			t.Fatal(err)
		}
		err = q.Wait(ctx, algorithm, client.Futures(f))
		var failed *clique.RunError
		if !errors.As(err, &failed) || len(failed.Ranks) != 2 {
			t.Fatalf("%s: %v", algorithm, err)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v; want %q", algorithm, err, w)
			}
		}
		if q, err = q.Reform(ctx, clique.ReformOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := native.Submit(ctx, q, "libsums.so:sums", "", nil); err == nil {
		t.Error("no partitions for two ranks")
	}
}

func TestNoPath(t *testing.T) {
	build(t)
	t.Setenv(native.PathVariable, "")
	q := form(t, cluster.Config{Workers: 1, Mode: cluster.Goroutines})
	f, err := native.Submit(testContext(t), q, "libsums.so:sums", "", columns(q))
	if err != nil {
		t.Fatal(err)
	}
	if err := f[0].Wait(testContext(t)); err == nil || !strings.Contains(err.Error(),
		"MILLSTREAM_NATIVE_PATH is not set on the worker") {
		t.Error(err)
	}
}

func TestPartitionsAreChecked(t *testing.T) {
	for _, p := range []native.Partition{
		{native.ColumnOf([]int32{1}), native.ColumnOf([]int32{1, 2})},
		{native.Column{Kind: 99}},
		{native.Column{Kind: clique.KindOf[int64](), Data: native.ColumnOf([]int8{1}).Data}},
	} {
		if _, err := new(native.Algorithm).Run(t.Context(), nil,
			native.Call{Partitions: []native.Partition{p}}); err == nil {
			t.Errorf("%v has no error", p)
		}
	}
}
