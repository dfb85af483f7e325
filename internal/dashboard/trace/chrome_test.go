package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	s := history(t, 30_000)
	var out bytes.Buffer
	if err := WriteChrome(&out, s); err != nil {
		t.Fatal(err)
	}
	got, err := ReadChrome(&out, spans.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if diff := tracetest.Compare(s, got); diff != "" {
		t.Error(diff)
	}
}

// TestStructure checks what trace viewers need.
func TestStructure(t *testing.T) {
	leak.Check(t)
	s := history(t, 2000)
	var out bytes.Buffer
	if err := WriteChrome(&out, s); err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []map[string]any `json:"traceEvents"`
	}
	if err := json.Unmarshal(out.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	named := map[string]bool{}
	for _, e := range file.TraceEvents {
		ph := e["ph"].(string)
		counts[ph]++
		place := fmt.Sprint(e["pid"], "/", e["tid"])
		if ph == "M" {
			named[place] = true
			if name := e["args"].(map[string]any)["name"]; name == "" {
				t.Errorf("metadata without a name: %v", e)
			}
			continue
		}
		ts, ok1 := e["ts"].(float64)
		dur, ok2 := e["dur"].(float64)
		if ph != "X" || !ok1 || !ok2 || ts < 0 || dur <= 0 || !named[place] || e["name"] == "" {
			t.Fatalf("event: got %v", e)
		}
	}
	workers := map[string]bool{}
	for _, r := range s.Rows() {
		workers[r.Worker] = true
	}
	if got, want := counts["M"], len(workers)+len(s.Rows()); got != want {
		t.Errorf("got %d metadata events, want %d", got, want)
	}
	if got, want := counts["X"], int(s.Meta().Spans); got != want {
		t.Errorf("got %d spans, want %d", got, want)
	}
}

// TestForeign reads a trace of another program.
func TestForeign(t *testing.T) {
	leak.Check(t)
	const trace = `[{"name":"process_name","ph":"M","pid":7,"args":{"name":"browser"}},
		{"name":"a","ph":"X","pid":7,"tid":"not a number","ts":5},
		{"name":"a","ph":"X","pid":7,"tid":1,"ts":1000.4,"dur":100,"args":{"bytes":"many","data":{"x":[1,2]}}},
		{"name":"outer","ph":"B","pid":7,"tid":2,"ts":2000},{"name":"inner","ph":"B","pid":7,"tid":2,"ts":2100},
		{"ph":"E","pid":7,"tid":2,"ts":2200},{"ph":"E","pid":7,"tid":2,"ts":2500},{"ph":"E","pid":7,"tid":2,"ts":2600},
		{"name":"n","ph":"i","pid":7,"tid":1,"ts":3},{"name":"late","ph":"X","pid":7,"tid":1,"ts":1e300,"dur":1},
		{"name":"neg","ph":"X","pid":7,"tid":1,"ts":-1,"dur":1}]`
	s, err := ReadChrome(strings.NewReader(trace), spans.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := s.Spans(0, 1e9, spans.AllRows, 10)
	names := s.Names()
	var text []string
	for _, sp := range got {
		text = append(text, fmt.Sprint(names[sp.Category], " ", sp.Start, "-", sp.Stop, " row ", sp.Row))
	}
	want := "a 1000-1100 row 0, outer 2000-2500 row 1, inner 2100-2200 row 1"
	if got := strings.Join(text, ", "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if rows := s.Rows(); rows[1].Name != "browser" || rows[1].Worker != "pid 7" || rows[1].Slot != 1 {
		t.Errorf("rows: got %v", rows)
	}
}

func TestBroken(t *testing.T) {
	leak.Check(t)
	for _, text := range []string{"", "7", `"x"`, "{", "[", `{"traceEvents":7}`, `{"traceEvents":[{}`, `[{"ph":"X"},`,
		`["` + strings.Repeat("x", 3*maxEvent) + `"]`} {
		if s, err := ReadChrome(strings.NewReader(text), spans.Config{}); !errors.Is(err, ErrFormat) {
			t.Errorf("%.20q: got %v, want %v", text, err, ErrFormat)
			if err == nil {
				s.Close()
			}
		}
	}
	for _, text := range []string{"[]", "{}", `{"traceEvents":[],"x":[1]}`} {
		s, err := ReadChrome(strings.NewReader(text), spans.Config{})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		s.Close()
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteError(t *testing.T) {
	leak.Check(t)
	if err := WriteChrome(failingWriter{}, history(t, 1000)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want %v", err, io.ErrClosedPipe)
	}
}

func FuzzReadChrome(f *testing.F) {
	s := history(f, 20)
	var out bytes.Buffer
	if err := WriteChrome(&out, s); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add([]byte(`[{"ph":"B","ts":1},{"ph":"E","ts":2}]`))
	f.Fuzz(func(t *testing.T, p []byte) {
		if got, err := ReadChrome(bytes.NewReader(p), spans.Config{}); err == nil {
			_, _ = got.Tile(t.Context(), 20, 0, spans.AllRows, 0)
			got.Close()
		}
	})
}
