// Package fake serves the dashboard's page with made-up data of every kind, also of those that a cluster without GPUs
// does not have.
package fake

import (
	"fmt"
	"math/rand/v2"
	"sort"
)

// Span is a part of a row in microseconds.
type Span struct {
	Row       int    `json:"row"`
	Start     int64  `json:"start"`
	Stop      int64  `json:"stop"`
	Cat       int    `json:"cat"`
	Key       string `json:"key,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`
	Peer      string `json:"peer,omitempty"`
	Transport string `json:"transport,omitempty"`
	Status    string `json:"status,omitempty"`
	Incoming  bool   `json:"incoming,omitempty"`
}

// Row is a line of the task stream.
type Row struct {
	ID     int    `json:"id"`
	Worker string `json:"worker"`
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Slot   int    `json:"slot"`
}

// History is what workers did.
type History struct {
	Rows  []Row
	Names []string
	Spans []Span // by row, then by start
}

var prefixes = []string{"read-parquet", "shuffle-split", "shuffle-join", "groupby-chunk", "groupby-agg",
	"kmeans-assign",
	"kmeans-update", "sum", "load", "inc"}

var fixedNames = []string{"", "transfer", "disk-read", "disk-write", "deserialize", "waiting", "error", "paused",
	"waiting-slot"}

// Address returns the address of a worker.
func Address(w int) string { return fmt.Sprintf("tcp://10.0.%d.%d:4%04d", w/200, w%200+1, w) }

// transportOf returns how two workers exchange data: workers of a host by shared memory or NVLink.
func transportOf(a, b int) string {
	switch {
	case a/4 == b/4 && a%2 == b%2:
		return "cuda_ipc"
	case a/4 == b/4:
		return "sysv"
	case (a+b)%5 == 0:
		return "tcp"
	}
	return "rc_mlx5"
}

// NewHistory returns a history of so many workers with two threads, of so many seconds.
func NewHistory(workers int, seconds float64) *History {
	r := rand.New(rand.NewPCG(1, 2))
	h := &History{Names: append(append([]string{}, fixedNames...), prefixes...)}
	for w := range workers {
		for slot := range 5 {
			kind, s := "thread", slot
			if slot >= 2 {
				kind, s = "transfer", slot-2
			}
			if slot == 4 {
				kind, s = "disk", 0
			}
			h.Rows = append(h.Rows, Row{len(h.Rows), Address(w), fmt.Sprintf("worker-%d", w), kind, s})
		}
	}
	end := int64(seconds * 1e6)
	for i, row := range h.Rows {
		h.fill(r, i, row, workers, end)
	}
	return h
}

func (h *History) fill(r *rand.Rand, i int, row Row, workers int, end int64) {
	w := i / 5
	t := r.Int64N(200e3)
	for n := 0; t < end; n++ {
		s := Span{Row: i, Start: t}
		var length int64
		switch row.Kind {
		case "thread":
			phase := int(t * int64(len(prefixes)-2) / end)
			s.Cat = 9 + min(phase+r.IntN(3), len(prefixes)-1)
			length = 2e3 + int64(r.ExpFloat64()*60e3)
			s.Key = fmt.Sprintf("('%s-%08x', %d, %d)", prefixes[s.Cat-9], 0xbeef00+s.Cat, w, n)
			s.Bytes = r.Int64N(64 << 20)
			switch r.IntN(40) {
			case 0:
				s.Cat, s.Bytes = []int{5, 7, 8}[n%3], 0 // waits
			case 1:
				s.Status = "error"
			}
		case "transfer":
			peer := (w + 1 + r.IntN(max(1, workers-1))) % workers
			length = 1e3 + int64(r.ExpFloat64()*20e3)
			s.Cat, s.Peer, s.Transport = 1, Address(peer), transportOf(w, peer)
			s.Bytes, s.Incoming = length*int64(500+r.IntN(11000)), r.IntN(2) == 0
			t += int64(r.ExpFloat64() * 150e3)
			s.Start = t
		case "disk":
			t += int64(r.ExpFloat64() * 900e3)
			s.Start, s.Cat = t, 2+r.IntN(2)
			length = 5e3 + int64(r.ExpFloat64()*40e3)
			s.Bytes = length * 900
		}
		s.Stop = min(s.Start+length, end)
		if s.Stop > s.Start {
			h.Spans = append(h.Spans, s)
		}
		t = s.Stop + int64(r.ExpFloat64()*8e3)
	}
}

// overlap returns the spans of rows [from, to) that overlap [start, stop), until they are limit many.
func (h *History) overlap(start, stop int64, from, to, limit int) ([]Span, bool) {
	out := []Span{}
	at := sort.Search(len(h.Spans), func(i int) bool { return h.Spans[i].Row >= from })
	for _, s := range h.Spans[at:] {
		if s.Row >= to {
			break
		}
		if s.Stop <= start || s.Start >= stop {
			continue
		}
		if len(out) == limit {
			return out, true
		}
		out = append(out, s)
	}
	return out, false
}

// tile encodes a tile as the contract of the page says.
func (h *History) tile(level, index int64, from, to, group int) []byte {
	size := float64(int64(1) << level)
	begin := index * 256 << level
	end := begin + 256<<level
	var out []byte
	previous := 0
	to = min(to, len(h.Rows))
	for line := 0; from+line<<group < to; line++ {
		a, b := from+line<<group, min(from+(line+1)<<group, to)
		spans, _ := h.overlap(begin, end, a, b, 1<<30)
		if len(spans) == 0 {
			continue
		}
		var sums [256][256]float64 // by category and bucket
		for _, s := range spans {
			for j := max(s.Start-begin, 0) >> level; j < 256 && begin+j<<level < s.Stop; j++ {
				x, y := max(s.Start, begin+j<<level), min(s.Stop, begin+(j+1)<<level)
				sums[s.Cat][j] += float64(y - x)
			}
		}
		out = appendLine(out, line-previous, &sums, size*float64(b-a))
		previous = line
	}
	return out
}

func appendLine(out []byte, delta int, sums *[256][256]float64, whole float64) []byte {
	type bucket struct{ cat, cover byte }
	type run struct {
		n int
		b bucket
	}
	var runs []run
	for j := range 256 {
		var b bucket
		var total, most float64
		for cat := range 256 {
			v := sums[cat][j]
			if total += v; v > most {
				most, b.cat = v, byte(cat)
			}
		}
		if total > 0 {
			b.cover = byte(max(1, min(255, total/whole*255+0.5)))
		}
		if n := len(runs); n > 0 && runs[n-1].b == b {
			runs[n-1].n++
		} else {
			runs = append(runs, run{1, b})
		}
	}
	out = appendUvarint(out, delta)
	out = appendUvarint(out, len(runs))
	for _, r := range runs {
		out = append(appendUvarint(out, r.n), r.b.cat, r.b.cover)
	}
	return out
}

func appendUvarint(out []byte, v int) []byte {
	for ; v >= 128; v >>= 7 {
		out = append(out, byte(v)|128)
	}
	return append(out, byte(v))
}
