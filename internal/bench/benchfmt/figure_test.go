package benchfmt

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func sample() Figure {
	return Figure{
		Bench: "ucx", Case: "tag-lat", Setting: "shm", Transport: "posix", Mode: "spin", Size: 8,
		Unit: UnitMicros, Ours: 0.40, Better: Lower,
	}
}

func TestFigureJSONIsTheContract(t *testing.T) {
	with := sample()
	with.Peer, with.Theirs = "ucx_perftest", 0.26
	extra := with
	extra.Mem, extra.Endpoint = "heap", "sockaddr"
	rate := Figure{Bench: "ucx", Case: "tag-rate", Setting: "shm", Transport: "posix", Mode: "spin", Size: 8,
		Unit: UnitMsgRate, Ours: 1234567.89, Better: Higher}
	zero := sample()
	zero.Case, zero.Unit, zero.Ours = "tag-rate-allocs", UnitAllocs, 0
	dead := with
	dead.Theirs = 0
	for _, tc := range []struct {
		name string
		f    Figure
		want string
	}{
		{"peer", with,
			`{"bench":"ucx","case":"tag-lat","setting":"shm","transport":"posix","mode":"spin","size":8,"unit":"us","ours":0.4,"peer":"ucx_perftest","theirs":0.26,"ratio":1.538,"better":"lower"}`},
		{"alone", sample(),
			`{"bench":"ucx","case":"tag-lat","setting":"shm","transport":"posix","mode":"spin","size":8,"unit":"us","ours":0.4,"better":"lower"}`},
		{"extra fields come last", extra,
			`{"bench":"ucx","case":"tag-lat","setting":"shm","transport":"posix","mode":"spin","size":8,"unit":"us","ours":0.4,"peer":"ucx_perftest","theirs":0.26,"ratio":1.538,"better":"lower","mem":"heap","endpoint":"sockaddr"}`},
		{"large numbers have no exponent", rate,
			`{"bench":"ucx","case":"tag-rate","setting":"shm","transport":"posix","mode":"spin","size":8,"unit":"msg/s","ours":1234568,"better":"higher"}`},
		{"zero is printed", zero,
			`{"bench":"ucx","case":"tag-rate-allocs","setting":"shm","transport":"posix","mode":"spin","size":8,"unit":"allocs/op","ours":0,"better":"lower"}`},
		{"no ratio over zero", dead,
			`{"bench":"ucx","case":"tag-lat","setting":"shm","transport":"posix","mode":"spin","size":8,"unit":"us","ours":0.4,"peer":"ucx_perftest","theirs":0,"better":"lower"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := NewJSONWriter(&out).Add(tc.f); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != tc.want+"\n" {
				t.Errorf("got  %swant %s", got, tc.want)
			}
		})
	}
}

func TestFigureRatioAndWins(t *testing.T) {
	for _, tc := range []struct {
		better       Better
		ours, theirs float64
		ratio        float64
		wins         bool
	}{
		{Lower, 1, 2, 0.5, true},
		{Lower, 3, 2, 1.5, false},
		{Higher, 3, 2, 1.5, true},
		{Higher, 1, 2, 0.5, false},
		{Higher, 2, 2, 1, true},
	} {
		f := Figure{Better: tc.better, Ours: tc.ours, Theirs: tc.theirs, Peer: "p"}
		if r, ok := f.Ratio(); !ok || r != tc.ratio || f.Wins() != tc.wins {
			t.Errorf("%+v: ratio %v %v, wins %v", tc, r, ok, f.Wins())
		}
	}
	if _, ok := sample().Ratio(); ok || sample().Wins() {
		t.Error("a figure without a peer has a ratio")
	}
}

func TestFigureValidate(t *testing.T) {
	for name, spoil := range map[string]func(*Figure){
		`"bench"`:           func(f *Figure) { f.Bench = "" },
		`"case"`:            func(f *Figure) { f.Case = "" },
		`"setting"`:         func(f *Figure) { f.Setting = "" },
		`"unit"`:            func(f *Figure) { f.Unit = "" },
		"better":            func(f *Figure) { f.Better = "more" },
		"not a measurement": func(f *Figure) { f.Ours = math.NaN() },
		"has value +Inf":    func(f *Figure) { f.Theirs = math.Inf(1) },
	} {
		f := sample()
		spoil(&f)
		for _, sink := range []Sink{NewJSONWriter(&bytes.Buffer{}), NewTable(&bytes.Buffer{})} {
			if err := sink.Add(f); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%T %s: error %v", sink, name, err)
			}
		}
	}
}

// Every line must be readable without this package.
func TestJSONLinesParse(t *testing.T) {
	var out bytes.Buffer
	w := NewJSONWriter(&out)
	for range 3 {
		if err := w.Add(sample()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m["ours"] != 0.4 || m["size"] != 8.0 {
			t.Errorf("read back %v", m)
		}
	}
}

func TestConversions(t *testing.T) {
	if got := GBps(2e9, 2); got != 1 {
		t.Errorf("GBps = %v", got)
	}
	if got := GBpsFromMebi(1000); math.Abs(got-1.048576) > 1e-12 {
		t.Errorf("GBpsFromMebi = %v", got)
	}
	if got := Micros(0.25); got != 250000 {
		t.Errorf("Micros = %v", got)
	}
}

func TestRounds(t *testing.T) {
	for _, tc := range []struct {
		better       Better
		values       []float64
		best, median float64
	}{
		{Lower, nil, 0, 0},
		{Lower, []float64{3}, 3, 3},
		{Lower, []float64{3, 1, 2}, 1, 2},
		{Higher, []float64{3, 1, 2, 8}, 8, 2.5},
	} {
		r := Rounds{Better: tc.better}
		for _, v := range tc.values {
			r.Add(v)
		}
		if r.Len() != len(tc.values) || r.Best() != tc.best || r.Median() != tc.median {
			t.Errorf("%v: len %d best %v median %v", tc, r.Len(), r.Best(), r.Median())
		}
	}
}
