package hostile

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

// Attacker notes an address or a name by which a log may name the attacker.
func (r *Rig) Attacker(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attackers = append(r.attackers, name)
}

// AtEnd calls f when the attack is over and the log was looked at.
func (r *Rig) AtEnd(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closers = append(r.closers, f)
}

// beginAttack notes what the processes are before an attack.
func (r *Rig) beginAttack() {
	for _, p := range r.processes() {
		p.mark()
	}
}

// endAttack closes what the attack has opened.
func (r *Rig) endAttack() {
	r.mu.Lock()
	closers := r.closers
	r.closers, r.attackers = nil, nil
	r.mu.Unlock()
	for _, f := range closers {
		f()
	}
}

// Dial opens a comm in a role, which matters with certificates only. It is aborted at the end of the attack.
func (r *Rig) Dial(ctx context.Context, address string, role secure.Role) (comm.Comm, error) {
	cfg, err := r.dialConfig(role)
	if err != nil {
		return nil, err
	}
	c, err := comm.Default.Dial(ctx, address, cfg)
	if err != nil {
		return nil, err
	}
	_, local := hostport(c.LocalAddr())
	r.Attacker(local)
	r.AtEnd(c.Abort)
	return c, nil
}

// Raw opens a byte connection to a tcp or tls address. It is closed at the end of the attack.
func (r *Rig) Raw(ctx context.Context, address string) (net.Conn, error) {
	_, where := hostport(address)
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", where)
	if err != nil {
		return nil, err
	}
	r.Attacker(c.LocalAddr().String())
	r.AtEnd(func() { _ = c.Close() })
	return c, nil
}

// RawTLS is Raw with the certificate of a role, where there are certificates.
func (r *Rig) RawTLS(ctx context.Context, address string, role secure.Role) (net.Conn, error) {
	c, err := r.Raw(ctx, address)
	if err != nil || r.tls == nil {
		return c, err
	}
	cfg, err := r.tls.Dial(role)
	if err != nil {
		return nil, err
	}
	cfg = cfg.Clone()
	cfg.ServerName = "127.0.0.1"
	secured := tls.Client(c, cfg)
	return secured, secured.HandshakeContext(ctx)
}

func hostport(address string) (scheme, where string) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", address
	}
	return u.Scheme, u.Host
}

// Call makes one request as a client, on a comm of its own.
func (r *Rig) Call(ctx context.Context, address, op string, args msgpack.Map, reply any) error {
	c, err := r.Dial(ctx, address, secure.Client)
	if err != nil {
		return err
	}
	defer c.Abort()
	return rpc.Call(ctx, c, op, args, reply)
}

// Refused returns nil when err is an answer of the peer, and an error for anything else: no answer, or success.
func Refused(err error) error {
	var remote *rpc.RemoteError
	switch {
	case err == nil:
		return errors.New("the request was accepted")
	case errors.As(err, &remote):
		return nil
	}
	return err
}

// Peer is a registered stream: a client or a worker.
type Peer struct {
	// Comm is the stream, Name what it registered as; Address is where a worker serves, Server what it serves.
	Comm          comm.Comm
	Name, Address string
	Server        *rpc.Server
}

// Client registers a client.
func (r *Rig) Client(ctx context.Context, name string) (*Peer, error) {
	c, err := r.Dial(ctx, r.Scheduler.Address, secure.Client)
	if err != nil {
		return nil, err
	}
	r.Attacker(name)
	p := &Peer{Comm: c, Name: name}
	if err := rpc.Notify(ctx, c, "register-client", msgpack.MapOf("client", name, "versions",
		msgpack.Map{})); err != nil {
		return nil, err
	}
	m, err := p.Read(ctx)
	if err != nil {
		return nil, err
	}
	if len(m) == 0 || m[0].GetString("op") != "stream-start" {
		return nil, fmt.Errorf("register-client: got %v, want stream-start", m)
	}
	return p, nil
}

// Join registers a worker, which serves the ops that the attack gives to its Server. fields replace those of the
// registration.
func (r *Rig) Join(ctx context.Context, name string, fields ...any) (*Peer, error) {
	var listen comm.ListenConfig
	if r.tls != nil {
		var err error
		if listen.TLS, err = r.tls.Listen(secure.Worker); err != nil {
			return nil, err
		}
	}
	l, err := comm.Default.Listen(ctx, r.protocol+"://127.0.0.1:0", listen)
	if err != nil {
		return nil, err
	}
	p := &Peer{Name: name, Address: l.ContactAddr(), Server: rpc.NewServer(rpc.Config{Type: "Worker", ID: "Worker-" +
		name})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = p.Server.Serve(context.WithoutCancel(ctx), l)
	}()
	r.AtEnd(func() { _ = p.Server.Close(); <-served })
	if p.Comm, err = r.Dial(ctx, r.Scheduler.Address, secure.Worker); err != nil {
		return nil, err
	}
	r.Attacker(name)
	r.Attacker(p.Address)
	m := msgpack.MapOf("address", p.Address, "status", "running", "nthreads", 1, "name", name, "now", 0.0, "resources",
		msgpack.Map{},
		"memory_limit", 1<<30, "local_directory", "", "services", msgpack.Map{}, "nanny", nil, "pid", 1, "versions",
		msgpack.MapOf("packages", msgpack.Map{}),
		"metrics", msgpack.Map{}, "extra", msgpack.MapOf("millstream", msgpack.MapOf("registry", task.Hash())),
		"stimulus_id", "hostile",
		"server_id", "Worker-"+name)
	for i := 0; i+1 < len(fields); i += 2 {
		m.Set(fields[i].(string), fields[i+1])
	}
	if err := rpc.Notify(ctx, p.Comm, "register-worker", m); err != nil {
		return nil, err
	}
	answer, err := p.Read(ctx)
	if err != nil {
		return nil, err
	}
	if len(answer) == 0 || answer[0].GetString("status") != "OK" {
		return nil, fmt.Errorf("register-worker: got %v, want status OK", answer)
	}
	return p, nil
}

// Send writes messages as one batch.
func (p *Peer) Send(ctx context.Context, messages ...any) error {
	return writeTo(ctx, p.Comm, messages)
}

// writeTo encodes and writes one value.
func writeTo(ctx context.Context, c comm.Comm, v any) error {
	m, err := wire.Encode(v, c.Info().EncodeOptions())
	if err != nil {
		return err
	}
	defer m.Release()
	return c.Write(ctx, m)
}

// Read is the next batch.
func (p *Peer) Read(ctx context.Context) (out []msgpack.Map, err error) {
	m, err := p.Comm.Read(ctx)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		return nil, err
	}
	v = wire.Clone(v)
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, x := range list {
		if d, ok := x.(msgpack.Map); ok {
			out = append(out, d)
		}
	}
	return out, nil
}

// Expect reads until a message of an op arrives.
func (p *Peer) Expect(ctx context.Context, op string) (msgpack.Map, error) {
	for {
		batch, err := p.Read(ctx)
		if err != nil {
			return nil, fmt.Errorf("waiting for %s: %w", op, err)
		}
		for _, m := range batch {
			if m.GetString("op") == op {
				return m, nil
			}
		}
	}
}

// Ended waits until the peer has closed the stream.
func (p *Peer) Ended(ctx context.Context) error {
	for {
		if _, err := p.Read(ctx); err != nil {
			return ctx.Err()
		}
	}
}

// Get fetches a page of the scheduler's dashboard; at most 64 MiB of it are read.
func (r *Rig) Get(ctx context.Context, path string) (status int, body []byte, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Scheduler.HTTP+path, nil)
	if err != nil {
		return 0, nil, err
	}
	q.Close = true
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	body, err = io.ReadAll(io.LimitReader(a.Body, 64<<20))
	return a.StatusCode, body, err
}
