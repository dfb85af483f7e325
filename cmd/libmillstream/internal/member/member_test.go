package member

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/secure"
)

// TestForm: ranks are ordered by name, whatever the order of contacts, and every member computes the same ticket.
func TestForm(t *testing.T) {
	leak.Check(t)
	members, contacts := open(t, "form", 3)
	first, err := Ticket(contacts)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Ticket([]string{contacts[2], contacts[0], contacts[1]})
	if err != nil || first != second {
		t.Fatalf("tickets depend on the order of contacts: %v\n%s\n%s", err, first, second)
	}
	if _, err := members[0].Backend(); !errors.Is(err, ErrNotJoined) {
		t.Errorf("backend before join: got %v, want %v", err, ErrNotJoined)
	}
	if _, err := members[0].Do(Operation{Code: Barrier}); !errors.Is(err, ErrNotJoined) {
		t.Errorf("barrier before join: got %v, want %v", err, ErrNotJoined)
	}
	ctx := testContext(t)
	each(t, members, func(i int, m *Member) error {
		if err := m.Join(ctx, first); err != nil {
			return err
		}
		r, err := m.Rank()
		if err != nil {
			return err
		}
		backend, err := m.Backend()
		if r.Rank() != i || r.Size() != 3 || r.Worker(2) != "a2" || backend != "shm+tcp" || err != nil {
			t.Errorf("member %d: got rank %d of %d, name %q, backend %s, %v", i, r.Rank(), r.Size(), r.Worker(2),
				backend, err)
		}
		_, err = m.Do(Operation{Code: Barrier})
		return err
	})
	if err := members[0].Join(ctx, first); err == nil || !strings.Contains(err.Error(), "already joined") {
		t.Errorf("second join: got %v", err)
	}
}

// TestTicketErrors: contacts that do not belong together are rejected with the reason.
func TestTicketErrors(t *testing.T) {
	leak.Check(t)
	_, contacts := open(t, "one", 2)
	_, others := open(t, "two", 1)
	for _, c := range []struct {
		name     string
		contacts []string
		want     string
	}{
		{"none", nil, "no contacts"},
		{"not JSON", []string{contacts[0], "{"}, "contact 1 of 2 is invalid"},
		{"no entry", []string{"{}"}, "contact 0 of 1 is invalid"},
		{"another clique", []string{contacts[0], others[0]}, "contact 1 has other settings"},
		{"twice", []string{contacts[0], contacts[0]}, `two ranks are named "a0"`},
		{"too long", []string{strings.Repeat(" ", maxText+1)}, "contacts of more than"},
		{"wrong entry", []string{`{"id":"x","timeout":1,"rank":[]}`}, "cannot unmarshal"},
	} {
		if _, err := Ticket(c.contacts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestJoinErrors: a ticket of another clique, or without this member, is rejected.
func TestJoinErrors(t *testing.T) {
	leak.Check(t)
	members, contacts := open(t, "join", 3)
	_, others := open(t, "other", 1)
	ctx := testContext(t)
	other, err := Ticket(others)
	if err != nil {
		t.Fatal(err)
	}
	if err := members[0].Join(ctx, other); err == nil || !strings.Contains(err.Error(), `of clique "other"`) {
		t.Errorf("ticket of another clique: got %v", err)
	}
	without, err := Ticket(contacts[:1])
	if err != nil {
		t.Fatal(err)
	}
	if err := members[1].Join(ctx, without); err == nil || !strings.Contains(err.Error(), "is not in the roster") {
		t.Errorf("ticket without the member: got %v", err)
	}
	if err := members[2].Join(ctx, "{"); err == nil || !strings.Contains(err.Error(), "invalid ticket") {
		t.Errorf("invalid ticket: got %v", err)
	}
}

// TestOpenErrors: settings that cannot work are errors of Open, which leaves nothing open.
func TestOpenErrors(t *testing.T) {
	leak.Check(t)
	for _, c := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no id", Config{}, "invalid clique id"},
		{"backend", Config{ID: "x", Backend: "pigeon"}, `backend "pigeon"`},
		{"address", Config{ID: "x", Listen: "pigeon://a:0"}, "listen on pigeon://a:0"},
		{"certificates", Config{ID: "x", Listen: "tls://127.0.0.1:0", Security: secure.Security{CAFile: "/nowhere/ca",
			Worker: secure.KeyPair{Cert: "/nowhere/cert"}}}, "/nowhere/ca"},
	} {
		m, _, err := Open(testContext(t), c.cfg)
		if err == nil {
			_ = m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestTLS: members with certificates of a worker form a clique over tls.
func TestTLS(t *testing.T) {
	leak.Check(t)
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := ca.WriteFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx := testContext(t)
	var members []*Member
	var contacts []string
	for _, name := range []string{"a", "b"} {
		cfg := config("tls", name)
		cfg.Listen, cfg.Security = "tls://127.0.0.1:0", *s
		m, text, err := Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		members, contacts = append(members, m), append(contacts, text)
	}
	ticket, err := Ticket(contacts)
	if err != nil {
		t.Fatal(err)
	}
	each(t, members, func(_ int, m *Member) error { return m.Join(ctx, ticket) })
	backend, err := members[0].Backend()
	if err != nil || backend != "shm+tls" {
		t.Errorf("got backend %q, %v, want shm+tls", backend, err)
	}
}

// TestClose: a closed member returns an error that matches net.ErrClosed, and one that is not joined in time closes.
func TestClose(t *testing.T) {
	leak.Check(t)
	members, contacts := open(t, "close", 1)
	members[0].expire()
	ticket, err := Ticket(contacts)
	if err != nil {
		t.Fatal(err)
	}
	if err := members[0].Join(testContext(t), ticket); !errors.Is(err, ErrClosed) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("join of an expired member: got %v, want %v", err, ErrClosed)
	}
	m := formed(t, 1)[0]
	m.expire() // has joined
	if _, err := m.Do(Operation{Code: Barrier}); err != nil {
		t.Errorf("barrier: %v", err)
	}
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Error(err)
	}
	if _, err := m.Do(Operation{Code: Barrier}); !errors.Is(err, ErrClosed) {
		t.Errorf("barrier after close: got %v, want %v", err, ErrClosed)
	}
	if err := m.Abort("late"); !errors.Is(err, ErrClosed) {
		t.Errorf("abort after close: got %v, want %v", err, ErrClosed)
	}
	if _, err := m.Split(0, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("split after close: got %v, want %v", err, ErrClosed)
	}
}

// TestAbort: the other ranks get an error that names the rank that aborted, and its reason.
func TestAbort(t *testing.T) {
	leak.Check(t)
	each(t, formed(t, 3), func(i int, m *Member) error {
		if i == 1 {
			return m.Abort("out of luck")
		}
		_, err := m.Do(Operation{Code: Barrier})
		var rank *clique.RankError
		if !errors.As(err, &rank) || rank.Rank != 1 || rank.Name != "a1" ||
			!strings.Contains(err.Error(), "out of luck") {
			t.Errorf("member %d: got %v, want an error that names rank 1", i, err)
		}
		return nil
	})
}

// TestTimeout: a collective that takes too long ends the clique; other ranks get the rank that has given up.
func TestTimeout(t *testing.T) {
	leak.Check(t)
	each(t, formed(t, 2), func(i int, m *Member) error {
		if i == 1 {
			r, err := m.Rank()
			if err != nil {
				return err
			}
			<-r.Done() // does not take part
			return nil
		}
		m.SetTimeout(time.Millisecond)
		_, err := m.Do(Operation{Code: Barrier})
		var rank *clique.RankError
		if !errors.As(err, &rank) || rank.Rank != 0 || !strings.Contains(err.Error(), "deadline") {
			t.Errorf("got %v, want the deadline of rank 0", err)
		}
		return nil
	})
}
