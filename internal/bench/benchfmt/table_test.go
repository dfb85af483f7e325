package benchfmt

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

func TestTableGroupsAlignsAndMarks(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out)
	add := func(f Figure) {
		t.Helper()
		if err := table.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	lat := Figure{Bench: "ucx", Case: "tag-lat", Setting: "shm", Transport: "posix", Mode: "spin", Mem: "heap", Size: 8,
		Unit: UnitMicros, Ours: 0.401, Peer: "ucx_perftest", Theirs: 0.26, Better: Lower}
	bw := Figure{Bench: "ucx", Case: "tag-bw", Setting: "tcp", Transport: "tcp/lo", Mode: "spin", Mem: "buffer",
		Size: 8 << 20,
		Unit: UnitGBps, Ours: 6.7, Better: Higher}
	add(lat)
	add(bw)
	lat.Setting, lat.Transport, lat.Ours, lat.Theirs = "tcp", "tcp/lo", 5.61, 19
	add(lat)
	lat.Theirs = 5.60
	add(lat)
	if out.Len() != 0 {
		t.Fatal("the table was written before Close")
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	want := `ucx tag-lat   us, lower is better
  setting  transport  mode  memory  size    ours  peer          theirs  ratio
  shm      posix      spin  heap     8 B  0.4010  ucx_perftest  0.2600   1.54  ✗ worse
  tcp      tcp/lo     spin  heap     8 B   5.610  ucx_perftest   19.00   0.30  ✓ better
  tcp      tcp/lo     spin  heap     8 B   5.610  ucx_perftest   5.600   1.00  =

ucx tag-bw   GB/s, higher is better
  setting  transport  mode  memory   size   ours
  tcp      tcp/lo     spin  buffer  8 MiB  6.700
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := table.Close(); err != nil || out.String() != want {
		t.Errorf("second Close: %v, wrote %q", err, strings.TrimPrefix(out.String(), want))
	}
}

func TestTableShowsEndpointOnlyWhereItDiffers(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out)
	f := sample()
	table.Add(f)
	f.Endpoint = "sockaddr"
	table.Add(f)
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "endpoint") || !strings.Contains(out.String(), "sockaddr") {
		t.Errorf("no endpoint column in\n%s", out.String())
	}
}

func TestFormatValue(t *testing.T) {
	for in, want := range map[float64]string{
		0: "0", 0.26: "0.2600", 5.5: "5.500", 12.347: "12.35", 123.47: "123.5", 1234.7: "1235", 512345: "512300",
		1.8e6:   "1800000",
		0.00123: "0.001230",
	} {
		if got := FormatValue(in); got != want {
			t.Errorf("FormatValue(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestProgressLive(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	p := newProgress(&out, true, func() time.Time { return clock })
	p.Step(1, 4, "tag-lat %s", "8 B")
	p.Step(2, 4, "dropped: too soon")
	clock = clock.Add(liveEvery)
	p.Step(4, 4, "last")
	p.Clear()
	p.Clear()
	got := out.String()
	for _, want := range []string{"\r█████░", " 25% tag-lat 8 B\x1b[K", "100% last\x1b[K"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if strings.Contains(got, "dropped") || strings.Contains(got, "\n") {
		t.Errorf("unexpected text in %q", got)
	}
	if !strings.HasSuffix(got, "\x1b[K\r\x1b[K") {
		t.Errorf("not cleared exactly once: %q", got)
	}
}

func TestProgressSparse(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	p := newProgress(&out, false, func() time.Time { return clock })
	for i := range 12 {
		p.Step(i, 12, "step %d", i)
		clock = clock.Add(time.Second)
	}
	p.Clear()
	if got, want := out.String(), "  0% step 0\n 41% step 5\n 83% step 10\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgressSilent(t *testing.T) {
	var none *Progress
	none.Step(1, 2, "x")
	none.Clear()
	var zero Progress
	zero.Step(1, 2, "x")
	zero.Clear()
	if percent(1, 0) != 0 || percent(5, 4) != 100 || percent(-1, 4) != 0 {
		t.Error("percent leaves 0..100")
	}
}

func TestIsTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if IsTerminal(w) || IsTerminal(&bytes.Buffer{}) {
		t.Error("a pipe or buffer is called a terminal")
	}
	if NewProgress(w).live {
		t.Error("progress is live on a pipe")
	}
}
