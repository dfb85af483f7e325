package nccl

import (
	"context"
	"encoding"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.millstream.dev/mem"
)

var (
	_ encoding.TextMarshaler   = UniqueID{}
	_ encoding.TextUnmarshaler = (*UniqueID)(nil)
)

func TestTypes(t *testing.T) {
	want := map[DataType]string{Int8: "int8 1", Uint64: "uint64 8", Float16: "float16 2", BFloat16: "bfloat16 2",
		Float64: "float64 8", Float8E5M2: "float8e5m2 1"}
	for typ, text := range want {
		if got := typ.String() + " " + string(rune('0'+typ.Size())); got != text {
			t.Errorf("%d is %s, want %s", typ, got, text)
		}
	}
	if DataType(77).Size() != 0 || DataType(-1).String() != "DataType(-1)" {
		t.Error("a type that does not exist")
	}
	if Avg.String() != "avg" || Op(9).String() != "Op(9)" {
		t.Error("names of operations")
	}
	if Version(22803).String() != "2.28.3" {
		t.Errorf("version %v", Version(22803))
	}
}

func TestUniqueIDText(t *testing.T) {
	var id UniqueID
	for i := range id {
		id[i] = byte(3 * i)
	}
	text, err := id.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var back UniqueID
	if err := back.UnmarshalText(text); err != nil || back != id {
		t.Errorf("came back as %x, %v", back, err)
	}
	for _, bad := range []string{"", "00", string(text[1:]), strings.Repeat("x", 256)} {
		if err := back.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%d digits were taken", len(bad))
		}
	}
}

// rankOf is a communicator for checks that come before NCCL is called.
func rankOf(rank, size int) *Comm { return &Comm{rank: rank, size: size} }

func host(n int) *mem.Buffer { return mem.FromBytes(make([]byte, n)) }

// Mistakes are told before anything is enqueued, in words that name the mend.
func TestArguments(t *testing.T) {
	c := rankOf(0, 2)
	ctx := t.Context()
	for what, call := range map[string]func() (*Work, error){
		"not a multiple of the size of float32": func() (*Work, error) {
			return c.AllReduce(ctx, nil, host(7), host(7), Float32, Sum)
		},
		"want 1 times as many to receive": func() (*Work, error) {
			return c.AllReduce(ctx, nil, host(8), host(4), Float32, Sum)
		},
		"invalid data type 99": func() (*Work, error) {
			return c.AllReduce(ctx, nil, host(8), host(8), 99, Sum)
		},
		"nil buffer": func() (*Work, error) {
			return c.AllReduce(ctx, nil, host(8), nil, Int8, Sum)
		},
		"want 2 times as many to receive": func() (*Work, error) {
			return c.AllGather(ctx, nil, host(8), host(8), Int8)
		},
		"want 2 times as many to send": func() (*Work, error) {
			return c.ReduceScatter(ctx, nil, host(8), host(8), Int8, Sum)
		},
		"broadcast: root 2: ranks are 0 to 1": func() (*Work, error) {
			return c.Broadcast(ctx, nil, host(8), host(8), Int8, 2)
		},
		"reduce: root -1": func() (*Work, error) {
			return c.Reduce(ctx, nil, host(8), host(8), Int8, Sum, -1)
		},
		"gather: root 5": func() (*Work, error) {
			return c.Gather(ctx, nil, host(8), host(8), Int8, 5)
		},
		"scatter: 8 elements": func() (*Work, error) {
			return c.Scatter(ctx, nil, host(8), host(8), Int8, 0)
		},
		"scatter: root 9": func() (*Work, error) {
			return c.Scatter(ctx, nil, host(8), host(8), Int8, 9)
		},
		"3 elements are not a multiple of 2 ranks": func() (*Work, error) {
			return c.AllToAll(ctx, nil, host(3), host(3), Int8)
		},
		"send: peer 7":              func() (*Work, error) { return c.Send(ctx, nil, host(3), Int8, 7) },
		"receive: peer -2":          func() (*Work, error) { return c.Recv(ctx, nil, host(3), Int8, -2) },
		"group without operations":  func() (*Work, error) { return c.Group().Run(ctx, nil) },
		"want a stream of device 0": func() (*Work, error) { return c.Send(ctx, nil, host(3), Int8, 1) },
	} {
		if w, err := call(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v, %v", what, w, err)
		}
	}
	for what, call := range map[string]func() (*Comm, error){
		"exclude at least one rank": func() (*Comm, error) { return c.Shrink(ctx, nil, false, Config{}) },
		"called by that rank":       func() (*Comm, error) { return c.Shrink(ctx, []int{0}, false, Config{}) },
		"rank 3: ranks are":         func() (*Comm, error) { return c.Shrink(ctx, []int{3}, false, Config{}) },
		"rank 2 of 2: ranks are":    func() (*Comm, error) { return Init(ctx, Config{}, UniqueID{}, 2, 2) },
		"rank 0 of 0: ranks are ":   func() (*Comm, error) { return Init(ctx, Config{}, UniqueID{}, 0, 0) },
	} {
		if _, err := call(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
		}
	}
	if _, err := c.Register(ctx, host(8)); err == nil || !strings.Contains(err.Error(), "only device memory") {
		t.Errorf("host memory was registered: %v", err)
	}
	if err := c.FreeOp(ctx, Sum); err == nil || !strings.Contains(err.Error(), "predefined operation") {
		t.Errorf("sum was freed: %v", err)
	}
}

func TestScalar(t *testing.T) {
	for _, c := range []struct {
		t    DataType
		v    float64
		want string // bytes, or part of the error
	}{
		{Int8, -2, "\xfe"}, {Uint8, 200, "\xc8"}, {Int32, -1, "\xff\xff\xff\xff"}, {Uint32, 1, "\x01\x00\x00\x00"},
		{Uint64, 2, "\x02\x00\x00\x00\x00\x00\x00\x00"}, {Int64, -1, strings.Repeat("\xff", 8)},
		{Float32, 0.5, "\x00\x00\x00\x3f"}, {Float64, 0.5, "\x00\x00\x00\x00\x00\x00\xe0\x3f"},
		{Int8, 0.5, "not a valid int8"}, {Uint8, -1, "not a valid uint8"}, {Uint32, 1e12, "not a valid uint32"},
		{Float16, 1, "use an integer type"},
	} {
		raw, err := scalarBytes(c.t, c.v)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v of %v: %v", c.v, c.t, err)
			}
			continue
		}
		if string(raw) != c.want {
			t.Errorf("%v of %v is %x, want %x", c.v, c.t, raw, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	err := error(&Error{Op: "all-reduce", Result: RemoteError, Detail: "socket closed\n"})
	if !errors.Is(err, RemoteError) || errors.Is(err, SystemError) ||
		!strings.HasSuffix(err.Error(), ": socket closed") {
		t.Errorf("%v", err)
	}
	if err := (&Error{Op: "split", Result: SystemError}); !strings.Contains(err.Error(), "NCCL_DEBUG=WARN") {
		t.Errorf("%v", err)
	}
	if err := (&Error{Op: "split", Result: notSupported}); !strings.Contains(err.Error(), "lacks the function") {
		t.Errorf("%v", err)
	}
}

// Without the library, or with a file that is none, the error says what to do.
func TestMissing(t *testing.T) {
	if os.Getenv("NCCL_TEST_CHILD") == "missing" {
		_, err := NewUniqueID()
		if _, again := Init(context.Background(), Config{}, UniqueID{}, 0, 1); again == nil ||
			!errors.Is(err, ErrUnavailable) || !errors.Is(again, ErrUnavailable) {
			t.Fatalf("%v, %v", err, again)
		}
		os.Stdout.WriteString("said: " + err.Error() + "\n")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestMissing$", "-test.v")
	cmd.Env = append(os.Environ(), "NCCL_TEST_CHILD=missing", "MILLSTREAM_NCCL_LIBRARY=/nowhere/libnccl.so.2")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "/nowhere/libnccl.so.2") ||
		!strings.Contains(string(out), "give the path of a libnccl.so.2") {
		t.Errorf("%v\n%s", err, out)
	}
}
