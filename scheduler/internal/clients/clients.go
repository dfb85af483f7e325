// Package clients registers the clients of a scheduler and tracks the keys that they hold.
package clients

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/inspect"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/recovery"
	"go.millstream.dev/scheduler/internal/topics"
	"go.millstream.dev/scheduler/internal/versions"
	"go.millstream.dev/wire"
)

// Host is the part of the scheduler that Clients uses.
type Host struct {
	Loop     loop.Loop
	Log      *slog.Logger
	Apply    func(state.Event)
	Streams  *peers.Streams
	Workers  *peers.Workers
	Journal  *recovery.Log
	Topics   *topics.Topics
	Versions *versions.Versions
	Totals   *inspect.Totals
	// Changed is called for a client that was added or removed, in the loop. It may be nil.
	Changed func(name string, added bool)
	// Serve reads a stream until it closes.
	Serve func(context.Context, *peers.Stream)
	// ID is the ID of the scheduler. Forget is how long a Millstream client may be disconnected, and ReleaseStep the
	// number of keys that are released at once. AnyBuild lets workers of other builds run the tasks of a client.
	ID          string
	Forget      time.Duration
	ReleaseStep int
	AnyBuild    bool
}

// Clients registers clients and tracks the keys that they hold. The loop owns it; registrations run in goroutines of
// their own.
type Clients struct {
	Host
	*peers.Clients

	// Memory that is reused by the next event.
	desires  state.ClientDesires
	releases state.ClientReleases
}

// New returns Clients that are listed in all.
func New(h Host, all *peers.Clients) *Clients {
	return &Clients{Host: h, Clients: all}
}

// Register sets the handler of requests.
func (s *Clients) Register(r *rpc.Server) { r.Handle("register-client", s.registerRPC) }

// registerRPC registers a client. The comm becomes its stream.
func (s *Clients) registerRPC(ctx context.Context, r *rpc.Request) (any, error) {
	var in struct {
		Client   string `rpc:"client"`
		Versions any    `rpc:"versions,optional"`
		// Millstream describes the program of a Millstream client.
		Millstream msgpack.Map `rpc:"millstream,optional"`
	}
	err := r.Args(&in)
	if err == nil && (in.Client == "" || peers.IsPart(in.Client)) {
		err = fmt.Errorf("register-client: invalid client name %q", in.Client)
	}
	if err == nil {
		err = s.Versions.CheckRelease(ctx, "client "+in.Client, in.Versions)
	}
	if err != nil {
		s.Log.Warn("client rejected", "peer", r.Comm.PeerAddr(), "error", err)
		// Clients do not wait for a reply; they check this field.
		hello := msgpack.MapOf("op", "stream-start", "warning", "", "error", err.Error())
		return rpc.NoReply, errors.Join(peers.Send(ctx, r.Comm, []any{hello}), r.Comm.Close())
	}
	r.Takeover()
	st := s.Streams.Open(r.Comm)
	name, versions, program := strings.Clone(in.Client), wire.Clone(in.Versions), peers.ProgramOf(in.Millstream)
	if err := s.Loop.Do(ctx, func() { s.add(name, versions, program, st) }); err != nil {
		return nil, err
	}
	st.Out.Start()
	s.Serve(ctx, st)
	return rpc.NoReply, nil
}

// add registers a client. It runs in the loop.
func (s *Clients) add(name string, versions any, p *peers.Program, st *peers.Stream) {
	c := s.Named(name)
	if c.Stream != nil && !c.Stream.Gone {
		// The client has reconnected before the loss of its comm was noticed.
		c.Stream.End()
	}
	c.Stream, c.Versions, c.LastSeen, c.AwayFrom = st, versions, s.Loop.Now(), time.Time{}
	c.Program, c.Short = p, ""
	st.Client = c
	s.Totals.ClientsAdded++
	hello := &message.StreamStart{Warning: s.Versions.Check(versions, "Client")}
	if st.Ours {
		hello.Millstream = message.SchedulerID{ID: s.ID, Epoch: s.Journal.Epoch()}
	}
	if text := s.Workers.Stale(p); text != "" && !s.AnyBuild {
		s.Log.Warn("workers have another build than the client", "client", name, "detail", text)
		hello.Warning = strings.TrimSpace(hello.Warning + "\n" + text)
	}
	st.Send(hello)
	s.Topics.Publish(msgpack.MapOf("action", "add-client", "client", name), "all", name)
	s.changed(name, true)
	s.Log.Info("client connected", "client", name, "peer", st.Comm.PeerAddr())
}

// changed reports a client that was added or removed.
func (s *Clients) changed(name string, added bool) {
	if s.Changed != nil {
		s.Changed(name, added)
	}
}

// Named returns the client of a name and creates it if necessary.
func (s *Clients) Named(name string) *peers.Client {
	if c := s.ByName[name]; c != nil {
		return c
	}
	c := &peers.Client{Name: name, Part: peers.IsPart(name), LastSeen: s.Loop.Now()}
	ev := state.AddClient{Name: name, Data: c}
	s.Apply(&ev)
	c.ID = ev.Client
	s.ByName[name] = c
	s.Journal.Client(name, true)
	return c
}

// Ended handles the end of a client's stream. A Millstream client that did not send close-client may reconnect.
func (s *Clients) Ended(st *peers.Stream) {
	c := st.Client
	st.End()
	s.Totals.ClientsRemoved++
	if c.Stream != st {
		return
	}
	c.Stream = nil
	if st.Ours && !st.Leaving && s.Forget > 0 {
		c.AwayFrom = s.Loop.Now()
		s.Log.Info("client disconnected; keeping its futures", "client", c.Name, "for", s.Forget)
		return
	}
	s.Remove(c)
}

// Remove removes a client and releases the keys that only it held.
func (s *Clients) Remove(c *peers.Client) {
	if s.ByName[c.Name] != c {
		return
	}
	delete(s.ByName, c.Name)
	s.Topics.UnsubscribeAll(c.Name)
	s.Apply(&state.RemoveClient{Client: c.ID})
	s.Journal.Client(c.Name, false)
	if !c.Part {
		s.Topics.Publish(msgpack.MapOf("action", "remove-client", "client", c.Name), "all", c.Name)
		s.changed(c.Name, false)
		s.Log.Info("client removed", "client", c.Name)
	}
}

// Tick removes clients that have been disconnected for too long.
func (s *Clients) Tick() {
	for _, c := range s.ByName {
		if !c.AwayFrom.IsZero() && s.Loop.Now().Sub(c.AwayFrom) > s.Forget {
			s.Remove(c)
		}
	}
}

// Desire holds keys for the client of a name.
func (s *Clients) Desire(name string, keys ...task.Key) {
	c := s.Named(name)
	s.Journal.Desire(name, keys)
	ev := &s.desires
	*ev = state.ClientDesires{Client: c.ID, Keys: keys}
	s.Apply(ev)
}

// Release releases keys of a client.
func (s *Clients) Release(name string, keys ...task.Key) {
	c := s.ByName[name]
	if c == nil || len(keys) == 0 {
		return
	}
	s.Journal.Release(name, keys)
	// Many keys are released in steps: the actions of a step are in memory that the next one reuses.
	for part := range slices.Chunk(keys, s.ReleaseStep) {
		ev := &s.releases
		*ev = state.ClientReleases{Client: c.ID, Keys: part}
		s.Apply(ev)
	}
}
