package arrowtrace

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/dashboard/spans/spanstest"
	"go.millstream.dev/internal/dashboard/trace/tracetest"
	"go.millstream.dev/internal/testkit/leak"
)

func history(t testing.TB, tasks int) *spans.Store {
	t.Helper()
	o := spanstest.Realistic(5, 2, tasks)
	o.Start = time.Unix(1_700_000_000, 0)
	o.Errors = 0.05
	s, err := spans.Open(spans.Config{Origin: o.Start.Add(-time.Second), Now: o.Stop().Add(time.Hour).Local})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	spanstest.Fill(s, o)
	return s
}

func TestRoundTrip(t *testing.T) {
	leak.Check(t)
	s := history(t, 40_000)
	var out bytes.Buffer
	if err := Write(&out, s); err != nil {
		t.Fatal(err)
	}
	got, err := Read(out.Bytes(), spans.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if diff := tracetest.Compare(s, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Read(out.Bytes()[:100], spans.Config{}); err == nil {
		t.Error("a part of a stream is accepted")
	}
}

// TestPyArrow reads the stream with pyarrow.
func TestPyArrow(t *testing.T) {
	leak.Check(t)
	python := os.Getenv("MILLSTREAM_PYTHON")
	if python == "" {
		t.Fatal("MILLSTREAM_PYTHON is not set; run the test with scripts/in-env")
	}
	s := history(t, 1000)
	name := filepath.Join(t.TempDir(), "spans.arrow")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(f, s); err != nil {
		t.Fatal(err)
	}
	f.Close()
	const program = `
import sys, pyarrow as pa, pyarrow.compute as pc
t = pa.ipc.open_stream(sys.argv[1]).read_all()
t.validate(full=True)
us = pc.sum(pc.subtract(t["stop"].cast("int64"), t["start"].cast("int64"))).as_py()
print(t.num_rows, us, pc.min(t["start"]).as_py().year, t["worker"][0].as_py()[:6])`
	out, err := exec.Command(python, "-c", program, name).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var us int64
	if err := s.Each(func(sp spans.Span) error { us += sp.Stop - sp.Start; return nil }); err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	want := []string{strconv.FormatInt(s.Meta().Spans, 10), strconv.FormatInt(us, 10), "2023", "tcp://"}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("pyarrow: got %q, want %q", got, want)
	}
}

func FuzzRead(f *testing.F) {
	s := history(f, 20)
	var out bytes.Buffer
	if err := Write(&out, s); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, p []byte) {
		if got, err := Read(p, spans.Config{}); err == nil {
			_, _ = got.Tile(t.Context(), 20, 0, spans.AllRows, 0)
			got.Close()
		}
	})
}
