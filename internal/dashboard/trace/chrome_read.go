package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"go.millstream.dev/internal/dashboard/spans"
)

// Bounds of a trace that is read.
const (
	maxEvent   = 1 << 20 // bytes of an event
	maxDepth   = 1 << 10 // events that have begun and not ended, of a thread
	maxThreads = 1 << 18
	maxProcs   = 1 << 16
	// importMargin is the time, in µs, before the first event of a trace without an origin that is kept.
	importMargin = 3_600_000_000
)

// ErrFormat is returned by ReadChrome for data that is no trace.
var ErrFormat = errors.New("trace: not a Chrome trace")

// ReadChrome reads a trace into a new history. It accepts an object with "traceEvents" or an array of events, complete
// events ("X") and pairs ("B" and "E"); other events are ignored. Times without an origin, as those of other programs,
// are taken as Unix times.
func ReadChrome(r io.Reader, cfg spans.Config) (*spans.Store, error) {
	c := &chromeReader{cfg: cfg, in: &limited{r: r}, procs: make(map[int64]*process),
		threads: make(map[[2]int64]*thread)}
	c.dec = json.NewDecoder(c.in)
	err := c.read()
	if err == nil && c.im == nil {
		err = c.open(0)
	}
	if err != nil {
		if c.im != nil {
			_ = c.im.Store.Close()
		}
		return nil, err
	}
	return c.im.Finish(), nil
}

type chromeReader struct {
	cfg     spans.Config
	in      *limited
	dec     *json.Decoder
	im      *Importer
	origin  int64 // added to times
	known   bool  // the trace has an origin
	procs   map[int64]*process
	threads map[[2]int64]*thread // by pid and tid
}

type process struct {
	address, name string
	slots         int
}

type thread struct {
	row   spans.Row
	begun []event
}

// limited fails when one event needs too many bytes: the decoder keeps them in memory.
type limited struct {
	r    io.Reader
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("%w: an event has more than %d bytes", ErrFormat, maxEvent)
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

func (c *chromeReader) token() (json.Token, error) {
	c.in.left = maxEvent
	t, err := c.dec.Token()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return t, nil
}

func (c *chromeReader) decode(v any) error {
	c.in.left = maxEvent
	if err := c.dec.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return nil
}

func (c *chromeReader) read() error {
	t, err := c.token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('['):
		return c.events()
	case json.Delim('{'):
	default:
		return ErrFormat
	}
	for c.dec.More() {
		name, err := c.token()
		if err != nil {
			return err
		}
		switch name {
		case "traceEvents":
			t, err := c.token()
			if err != nil {
				return err
			}
			if t != json.Delim('[') {
				return ErrFormat
			}
			if err := c.events(); err != nil {
				return err
			}
		case "otherData":
			var raw json.RawMessage
			if err := c.decode(&raw); err != nil {
				return err
			}
			var o other
			if json.Unmarshal(raw, &o) == nil && o.Generator == generator && o.Origin > 0 && o.Origin < maxUnix {
				c.origin, c.known = o.Origin, true
			}
		default:
			var skip json.RawMessage
			if err := c.decode(&skip); err != nil {
				return err
			}
		}
	}
	_, err = c.token()
	return err
}

// events reads the events of an array.
func (c *chromeReader) events() error {
	for c.dec.More() {
		var raw json.RawMessage
		if err := c.decode(&raw); err != nil {
			return err
		}
		var e event
		// Arguments of other programs may have other types.
		if json.Unmarshal(raw, &e) != nil {
			e = event{}
			var bare struct {
				event
				Args json.RawMessage `json:"args"`
			}
			if json.Unmarshal(raw, &bare) != nil {
				continue
			}
			e = bare.event
			e.Args = nil
		}
		if err := c.event(e); err != nil {
			return err
		}
	}
	_, err := c.token()
	return err
}

func (c *chromeReader) event(e event) error {
	switch e.Phase {
	case "M":
		c.metadata(e)
	case "X":
		if e.Time != nil && e.Duration != nil {
			return c.span(e, *e.Time, *e.Time+*e.Duration)
		}
	case "B":
		if t := c.thread(e); t != nil && e.Time != nil && len(t.begun) < maxDepth {
			t.begun = append(t.begun, e)
		}
	case "E":
		if t := c.thread(e); t != nil && e.Time != nil && len(t.begun) > 0 {
			begun := t.begun[len(t.begun)-1]
			t.begun = t.begun[:len(t.begun)-1]
			return c.span(begun, *begun.Time, *e.Time)
		}
	}
	return nil
}

// metadata notes the name of a process or the row of a thread.
func (c *chromeReader) metadata(e event) {
	if e.Args == nil {
		return
	}
	switch e.Name {
	case "process_name":
		if p := c.process(e); p != nil && p.slots == 0 {
			p.name = e.Args.Name
			if e.Args.Address != "" {
				p.address = e.Args.Address
			}
		}
	case "thread_name":
		if t := c.thread(e); t != nil && e.Args.Kind != "" && e.Args.Slot != nil {
			t.row.Kind, t.row.Slot = e.Args.Kind, *e.Args.Slot
		}
	}
}

func id(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

func (c *chromeReader) process(e event) *process {
	p := c.procs[id(e.PID)]
	if p == nil && len(c.procs) < maxProcs {
		p = &process{address: fmt.Sprint("pid ", id(e.PID))}
		c.procs[id(e.PID)] = p
	}
	return p
}

// thread returns the row of an event; nil if there are too many.
func (c *chromeReader) thread(e event) *thread {
	k := [2]int64{id(e.PID), id(e.TID)}
	t := c.threads[k]
	if t != nil {
		return t
	}
	p := c.process(e)
	if p == nil || len(c.threads) >= maxThreads {
		return nil
	}
	t = &thread{row: spans.Row{Worker: p.address, Name: p.name, Kind: spans.ThreadRow, Slot: p.slots}}
	p.slots++
	c.threads[k] = t
	return t
}

// open opens the store; first is the time of the first event.
func (c *chromeReader) open(first int64) error {
	origin := c.origin
	if !c.known {
		origin = max(0, first-importMargin)
	}
	var err error
	c.im, err = NewImporter(c.cfg, origin)
	return err
}

// span adds a span.
func (c *chromeReader) span(e event, from, to float64) error {
	if !(from >= 0 && to >= from && to < maxUnix) {
		return nil
	}
	start, stop := c.origin+int64(math.Round(from)), c.origin+int64(math.Round(to))
	if c.im == nil {
		if err := c.open(start); err != nil {
			return err
		}
	}
	t := c.thread(e)
	if t == nil {
		return nil
	}
	var sp spans.Span
	if a := e.Args; a != nil {
		sp = spans.Span{Key: a.key(), Bytes: a.Bytes, Keys: a.Keys, Peer: a.Peer, Transport: a.Transport}
		if a.Incoming {
			sp.Flags |= spans.FlagIncoming
		}
		if a.Status == "error" {
			sp.Flags |= spans.FlagError
		}
	}
	c.im.Add(t.row, e.Name, sp, start, stop)
	return nil
}
