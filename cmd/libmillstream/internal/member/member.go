package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/closed"
	"go.millstream.dev/internal/comm/peernet"
	"go.millstream.dev/internal/proc/hostid"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/secure"
)

// DefaultTimeout is how long Join waits for the other ranks, and how long an open member waits for Join.
const DefaultTimeout = 30 * time.Second

// Config configures a member. All fields but Name, Listen, Device and Security must be equal on all ranks.
type Config struct {
	// ID identifies the clique: 1 to 64 bytes, chosen by the caller. Only processes that know it can join, so it should
	// be random.
	ID string
	// Name identifies this rank in the order of ranks and in errors, such as the address of its Dask worker (default:
	// the address of the listener). Names must be unique.
	Name string
	// Listen is where other ranks connect to this one (default tcp://127.0.0.1:0).
	Listen string
	// Backend specifies how data moves (default clique.Auto).
	Backend clique.Backend
	// Device is the number of the GPU of this rank in this process, as text, which NCCL needs (default: none; device
	// memory then uses the GPU of the first buffer).
	Device string
	// Deterministic makes results bitwise equal on all backends.
	Deterministic bool
	// Timeout bounds Join, and how long an open member waits for it (default DefaultTimeout).
	Timeout time.Duration
	// Security has the certificates for a tls:// listener, those of a worker.
	Security secure.Security
}

// Errors for errors.Is.
var (
	// ErrNotJoined is returned by operations on a member that has not joined its clique.
	ErrNotJoined = errors.New("member: not joined; call join with the ticket first")
	// ErrClosed is returned by operations on a closed member. It matches net.ErrClosed with errors.Is.
	ErrClosed = closed.New("member: communicator was destroyed")
)

// Member is one rank in a process that is not a Millstream worker. It is safe for concurrent use.
type Member struct {
	cfg    Config
	peers  peernet.Peers
	host   task.Host
	server *rpc.Server
	served sync.WaitGroup

	ctx context.Context // of operations; has the Info of the host
	end context.CancelCauseFunc

	timeout atomic.Int64  // of operations, in nanoseconds; 0 is none
	stream  atomic.Uint64 // CUstream of operations on device memory
	group   group

	survivors chan *survivor // ranks that want to reform
	reforming sync.Mutex     // held by Reform

	mu      sync.Mutex // guards the fields below
	rank    *clique.Rank
	backend string
	joining bool
	seats   []seat // ranks of the ticket; not changed after Join
	subs    []*Member
	part    bool // returned by Split: host and server are those of the clique
	closed  bool
	expiry  *time.Timer
}

// Open opens the listener of a member and returns its contact, which all ranks need for Ticket.
func Open(ctx context.Context, cfg Config) (*Member, string, error) {
	switch cfg.Backend {
	case clique.Auto, clique.NCCL, clique.UCX, clique.Comm:
	default:
		return nil, "", fmt.Errorf("member: %w: backend %q: want %q, %q, %q or none", ErrInvalid, cfg.Backend,
			clique.UCX, clique.Comm, clique.NCCL)
	}
	gpu, err := cfg.device()
	if err != nil {
		return nil, "", err
	}
	cfg.Listen = cmp.Or(cfg.Listen, "tcp://127.0.0.1:0")
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	dial, listen := comm.DialConfig{Timeout: cfg.Timeout}, comm.ListenConfig{}
	if cfg.Security.Available(secure.Worker) {
		var errs [2]error
		dial.TLS, errs[0] = cfg.Security.Dial(secure.Worker)
		listen.TLS, errs[1] = cfg.Security.Listen(secure.Worker)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, "", fmt.Errorf("member: certificates: %w", err)
		}
	}
	l, err := comm.Listen(ctx, cfg.Listen, listen)
	if err != nil {
		return nil, "", fmt.Errorf("member: listen on %s: %w", cfg.Listen, err)
	}
	m := &Member{cfg: cfg, survivors: make(chan *survivor, 16)}
	m.cfg.Name = cmp.Or(cfg.Name, l.ContactAddr())
	m.peers.Network, m.peers.Dial, m.peers.Address = comm.Default, dial, l.ContactAddr()
	m.host = task.Host{Worker: m.cfg.Name, Name: m.cfg.Name, Peers: &m.peers, Boot: hostid.Boot(),
		DataConnections: cfg.Backend != clique.Comm, Device: gpu}
	m.server = rpc.NewServer(rpc.Config{Type: "Rank", Logger: slog.New(slog.DiscardHandler),
		Authorize: rpc.Roles{"": {secure.Worker}}.Authorize, Waiting: []string{peernet.ChannelOp},
		Detached: []string{peernet.ChannelOp}})
	m.peers.Register(m.server)
	if _, err := m.peers.Serve(reformKind, m.acceptSurvivor); err != nil {
		_ = l.Close()
		return nil, "", err
	}
	m.ctx, m.end = context.WithCancelCause(task.WithInfo(context.Background(), &task.Info{Host: &m.host}))
	m.served.Go(func() { _ = m.server.Serve(m.ctx, l) })
	text, err := m.prepare(ctx)
	if err != nil {
		_ = m.Close()
		return nil, "", err
	}
	m.mu.Lock()
	m.expiry = time.AfterFunc(2*cfg.Timeout, m.expire)
	m.mu.Unlock()
	return m, text, nil
}

// expire closes a member whose caller has not called Join in time, for example because the program that collects the
// contacts has crashed.
func (m *Member) expire() {
	m.mu.Lock()
	used := m.joining || m.closed
	m.mu.Unlock()
	if !used {
		_ = m.Close()
	}
}

// context returns ctx with the values of the member; it ends with the member.
func (m *Member) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(task.WithInfo(ctx, &task.Info{Host: &m.host}))
	stop := context.AfterFunc(m.ctx, func() { cancel(context.Cause(m.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Join connects the member to all other ranks of a ticket. It waits for them, at most Config.Timeout.
func (m *Member) Join(ctx context.Context, ticket string) error {
	m.mu.Lock()
	switch {
	case m.closed:
		m.mu.Unlock()
		return ErrClosed
	case m.joining:
		m.mu.Unlock()
		return errors.New("member: already joined; open another communicator")
	}
	m.joining = true
	m.expiry.Stop()
	m.mu.Unlock()
	ctx, cancel := m.context(ctx)
	defer cancel()
	backend, err := m.form(ctx, ticket)
	if err != nil {
		return err
	}
	list, err := seats(ticket)
	if err != nil {
		return fmt.Errorf("member: %w", err)
	}
	r, err := clique.Join(ctx, clique.Ticket(m.cfg.ID+".0"))
	if err != nil {
		return fmt.Errorf("member: %w", err)
	}
	m.mu.Lock()
	m.seats = list
	closed := m.closed
	if !closed {
		m.rank, m.backend = r, backend
	}
	m.mu.Unlock()
	if closed {
		_ = r.Close()
		return ErrClosed
	}
	return nil
}

// Rank returns the handle for operations.
func (m *Member) Rank() (*clique.Rank, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, ErrClosed
	case m.rank == nil:
		return nil, ErrNotJoined
	}
	return m.rank, nil
}

// Backend returns how data moves: "tcp", "tls" or "ucx", with the prefix "shm+" if all ranks of the clique share a
// machine.
func (m *Member) Backend() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return "", ErrClosed
	case m.rank == nil:
		return "", ErrNotJoined
	}
	return m.backend, nil
}

// Split forms sub-cliques: ranks with the same color are in one, ordered by key and then by rank. With a negative color
// it returns nil. It is a collective. Closing m closes its sub-cliques.
func (m *Member) Split(color, key int) (*Member, error) {
	r, err := m.Rank()
	if err != nil {
		return nil, err
	}
	ctx, cancel := m.bounded()
	defer cancel()
	sub, err := r.Split(ctx, color, key)
	if sub == nil || err != nil {
		return nil, err
	}
	out := &Member{ctx: m.ctx, rank: sub, joining: true, part: true}
	out.timeout.Store(m.timeout.Load())
	out.stream.Store(m.stream.Load())
	m.mu.Lock()
	out.backend = m.backend
	closed := m.closed
	m.subs = append(slices.DeleteFunc(m.subs, (*Member).isClosed), out)
	m.mu.Unlock()
	if closed {
		_ = out.Close()
		return nil, ErrClosed
	}
	return out, nil
}

func (m *Member) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// SetTimeout bounds later operations; 0 is no limit. A collective that takes longer ends the clique.
func (m *Member) SetTimeout(d time.Duration) { m.timeout.Store(int64(max(d, 0))) }

// Abort ends the clique on every rank, with an error that names this one and has the text of why.
func (m *Member) Abort(why string) error {
	r, err := m.Rank()
	if err != nil {
		return err
	}
	r.Abort(errors.New(cmp.Or(why, "aborted")))
	return nil
}

// Close leaves the clique and frees all resources. Ranks that wait for this one get an error that names it. Close may
// be called twice.
func (m *Member) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		m.served.Wait()
		return nil
	}
	m.closed = true
	r, subs := m.rank, m.subs
	if m.expiry != nil {
		m.expiry.Stop()
	}
	m.mu.Unlock()
	var errs []error
	for _, s := range subs {
		errs = append(errs, s.Close())
	}
	if r != nil {
		errs = append(errs, r.Close())
	}
	m.group.mu.Lock()
	_ = m.group.end() // the operations have failed
	if m.part {
		return errors.Join(errs...)
	}
	errs = append(errs, m.host.Close()) // the session, with its connections
	m.end(ErrClosed)
	errs = append(errs, m.server.Close())
	m.served.Wait()
	return errors.Join(errs...)
}
