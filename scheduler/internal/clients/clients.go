// Package clients takes in the clients of a scheduler and keeps what they want.
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

// Host is what clients need of the scheduler.
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
	// Serve reads a stream to its end.
	Serve func(context.Context, *peers.Stream)
	// ID is that of the scheduler. Forget is how long a client of ours may be away, and ReleaseStep how many keys are
	// released at once. AnyBuild lets workers of other builds run the tasks of a client.
	ID          string
	Forget      time.Duration
	ReleaseStep int
	AnyBuild    bool
}

// Clients takes in clients, and keeps what they want. The loop owns it; registrations run in goroutines of their own.
type Clients struct {
	Host
	*peers.Clients

	// Memory that is used from one event to the next.
	desires  state.ClientDesires
	releases state.ClientReleases
}

// New returns clients that are listed in all.
func New(h Host, all *peers.Clients) *Clients {
	return &Clients{Host: h, Clients: all}
}

// Register sets the handler of requests.
func (s *Clients) Register(r *rpc.Server) { r.Handle("register-client", s.registerRPC) }

// registerRPC takes a client in. The comm becomes its stream.
func (s *Clients) registerRPC(ctx context.Context, r *rpc.Request) (any, error) {
	var in struct {
		Client   string `rpc:"client"`
		Versions any    `rpc:"versions,optional"`
		// Millstream is what our clients say about their program.
		Millstream msgpack.Map `rpc:"millstream,optional"`
	}
	err := r.Args(&in)
	if err == nil && (in.Client == "" || peers.IsPart(in.Client)) {
		err = fmt.Errorf("register-client: a client needs a name of its own, got %q", in.Client)
	}
	if err == nil {
		err = s.Versions.CheckRelease(ctx, "client "+in.Client, in.Versions)
	}
	if err != nil {
		s.Log.Warn("a client is refused", "peer", r.Comm.PeerAddr(), "error", err)
		// Clients do not ask for a reply: what they look at is this field.
		hello := msgpack.MapOf("op", "stream-start", "warning", "", "error", err.Error())
		return rpc.NoReply, errors.Join(peers.Say(ctx, r.Comm, []any{hello}), r.Comm.Close())
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

// add takes in a client. It runs in the loop.
func (s *Clients) add(name string, versions any, p *peers.Program, st *peers.Stream) {
	c := s.Named(name)
	if c.Stream != nil && !c.Stream.Gone {
		// It has come back before we noticed that it had gone.
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
		s.Log.Warn("workers are stale", "client", name, "detail", text)
		hello.Warning = strings.TrimSpace(hello.Warning + "\n" + text)
	}
	st.Send(hello)
	s.Topics.Publish(msgpack.MapOf("action", "add-client", "client", name), "all", name)
	s.Log.Info("client connected", "client", name, "peer", st.Comm.PeerAddr())
}

// Named returns a client, new if need be.
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

// Ended is the end of a client's stream. One of ours that did not say goodbye may
// come back.
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
		s.Log.Info("client is away", "client", c.Name, "kept", s.Forget)
		return
	}
	s.Remove(c)
}

// Remove forgets a client and releases what only it wanted.
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
		s.Log.Info("remove client", "client", c.Name)
	}
}

// Tick forgets clients that have been away for too long.
func (s *Clients) Tick() {
	for _, c := range s.ByName {
		if !c.AwayFrom.IsZero() && s.Loop.Now().Sub(c.AwayFrom) > s.Forget {
			s.Remove(c)
		}
	}
}

// Desire makes a client want keys; its name is enough.
func (s *Clients) Desire(name string, keys ...task.Key) {
	c := s.Named(name)
	s.Journal.Desire(name, keys)
	ev := &s.desires
	*ev = state.ClientDesires{Client: c.ID, Keys: keys}
	s.Apply(ev)
}

// Release takes keys back that a client wanted.
func (s *Clients) Release(name string, keys ...task.Key) {
	c := s.ByName[name]
	if c == nil || len(keys) == 0 {
		return
	}
	s.Journal.Release(name, keys)
	// A client that lets go of a million results does so in steps: what comes of a step is
	// said in memory that the next one uses again.
	for part := range slices.Chunk(keys, s.ReleaseStep) {
		ev := &s.releases
		*ev = state.ClientReleases{Client: c.ID, Keys: part}
		s.Apply(ev)
	}
}
