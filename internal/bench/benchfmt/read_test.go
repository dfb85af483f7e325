package benchfmt

import (
	"encoding/json"
	"testing"
)

// A figure that is written and read is the same, up to the digits that are written.
func TestFigureRoundTrip(t *testing.T) {
	for _, want := range []Figure{
		{Bench: "ucx", Case: "tag-lat", Setting: "shm", Transport: "posix", Mode: "spin", Size: 8, Unit: "us",
			Ours: 0.4,
			Peer: "ucx_perftest", Theirs: 0.26, Better: Lower, Mem: "heap", Endpoint: "address"},
		{Bench: "tasks", Case: "tree", Setting: "2 x 1 tls", Unit: "tasks/s", Ours: 81270, Better: Higher, Tasks: 65535,
			OursMedian: 80000, TheirsMedian: 12},
	} {
		line, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Figure
		if err := json.Unmarshal(line, &got); err != nil || got != want {
			t.Errorf("figure after writing and reading: got %+v, %v, want %+v", got, err, want)
		}
	}
	for _, bad := range []string{`{}`, `{"bench":"x","case":"y","setting":"z","unit":"s","ours":-1,"better":"lower"}`,
		`{"bench":1}`, `[]`} {
		var f Figure
		if err := json.Unmarshal([]byte(bad), &f); err == nil {
			t.Errorf("%s: got %+v, want an error", bad, f)
		}
	}
}
