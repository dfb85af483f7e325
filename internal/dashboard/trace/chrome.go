package trace

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"go.millstream.dev/internal/dashboard/spans"
)

// event is an event of a trace.
type event struct {
	Phase    string   `json:"ph"`
	Name     string   `json:"name"`
	Category string   `json:"cat,omitempty"`
	PID      *int64   `json:"pid,omitempty"`
	TID      *int64   `json:"tid,omitempty"`
	Time     *float64 `json:"ts,omitempty"`  // µs since the origin
	Duration *float64 `json:"dur,omitempty"` // µs
	Args     *args    `json:"args,omitempty"`
}

// args are the arguments of spans, and of metadata: Name, Address, Kind, Slot.
type args struct {
	Name      string `json:"name,omitempty"`
	Address   string `json:"address,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Slot      *int   `json:"slot,omitempty"`
	Key       string `json:"key,omitempty"`
	RawKey    string `json:"key_bytes,omitempty"` // base64, if the key is not UTF-8
	Bytes     int64  `json:"bytes,omitempty"`
	Keys      int64  `json:"keys,omitempty"`
	Peer      string `json:"peer,omitempty"`
	Transport string `json:"transport,omitempty"`
	Incoming  bool   `json:"incoming,omitempty"`
	Status    string `json:"status,omitempty"` // "error" of a task that failed
}

// other is what a trace has besides events.
type other struct {
	Generator string `json:"generator"`
	Origin    int64  `json:"origin"` // Unix time in µs
}

const generator = "millstream"

// WriteChrome writes a history as JSON for Chrome's trace viewer and Perfetto. It writes one span after the other.
func WriteChrome(w io.Writer, s *spans.Store) error {
	out := bufio.NewWriterSize(w, 1<<16)
	head, err := json.Marshal(other{generator, s.Meta().Origin})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `{"displayTimeUnit":"ms","otherData":%s,"traceEvents":[`, head)
	enc := &chromeWriter{out: out}
	pids := make(map[string]int64)
	rows := s.Rows()
	for _, r := range rows {
		pid, ok := pids[r.Worker]
		if !ok {
			pid = int64(len(pids) + 1)
			pids[r.Worker] = pid
			name := r.Name
			if name == "" {
				name = r.Worker
			}
			enc.write(&event{Phase: "M", Name: "process_name", PID: &pid, Args: &args{Name: name, Address: r.Worker}})
		}
		tid := int64(r.ID) + 1
		enc.write(&event{Phase: "M", Name: "thread_name", PID: &pid, TID: &tid,
			Args: &args{Name: fmt.Sprint(r.Kind, " ", r.Slot), Kind: r.Kind, Slot: &r.Slot}})
	}
	names := s.Names()
	err = s.Each(func(sp spans.Span) error {
		if int(sp.Row) >= len(rows) {
			return nil // of a row that was added meanwhile
		}
		pid, tid := pids[rows[sp.Row].Worker], int64(sp.Row)+1
		start, length := float64(sp.Start), float64(sp.Stop-sp.Start)
		e := event{Phase: "X", Name: "(others)", Category: "task", PID: &pid, TID: &tid, Time: &start,
			Duration: &length, Args: argsOf(&sp)}
		if int(sp.Category) < len(names) {
			e.Name = names[sp.Category]
		}
		if sp.Category < spans.FirstPrefix {
			e.Category = e.Name
		}
		enc.write(&e)
		return enc.err
	})
	if err != nil {
		return err
	}
	out.WriteString("\n]}\n")
	return out.Flush()
}

func argsOf(sp *spans.Span) *args {
	a := &args{Bytes: sp.Bytes, Keys: sp.Keys, Peer: sp.Peer, Transport: sp.Transport,
		Incoming: sp.Flags&spans.FlagIncoming != 0}
	if sp.Flags&spans.FlagError != 0 {
		a.Status = "error"
	}
	if utf8.ValidString(sp.Key) {
		a.Key = sp.Key
	} else {
		a.RawKey = base64.StdEncoding.EncodeToString([]byte(sp.Key))
	}
	return a
}

// key returns the key of a span.
func (a *args) key() string {
	if a.Key != "" {
		return a.Key
	}
	raw, err := base64.StdEncoding.DecodeString(a.RawKey)
	if err != nil {
		return ""
	}
	return string(raw)
}

// chromeWriter writes events, separated by commas.
type chromeWriter struct {
	out   *bufio.Writer
	begun bool
	err   error
}

func (c *chromeWriter) write(e *event) {
	p, err := json.Marshal(e)
	if c.err != nil {
		return
	}
	if err != nil {
		c.err = err
		return
	}
	if c.begun {
		c.out.WriteByte(',')
	}
	c.begun = true
	c.out.WriteByte('\n')
	_, c.err = c.out.Write(p)
}
