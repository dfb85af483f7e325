package member

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/testkit/leak"
)

// sumOfRanks checks a member by an operation.
func sumOfRanks(m *Member) (int64, error) {
	r, err := m.Rank()
	if err != nil {
		return 0, err
	}
	x := []int64{int64(r.Rank())}
	_, err = m.Do(Operation{Code: AllReduce, Kind: clique.KindOf[int64](), Op: 1, Count: 1, Send: at(x), Recv: at(x)})
	return x[0], err
}

// TestReform: whichever rank is lost, the others form a clique, keep their order and its time limit, twice.
func TestReform(t *testing.T) {
	leak.Check(t)
	for lost := range 3 {
		members := formed(t, 3)
		if err := members[lost].Close(); err != nil {
			t.Fatal(err)
		}
		left := append(append([]*Member(nil), members[:lost]...), members[lost+1:]...)
		each(t, left, func(i int, m *Member) error {
			m.SetTimeout(patience)
			var failed *clique.RankError
			if _, err := sumOfRanks(m); !errors.As(err, &failed) || failed.Rank != lost {
				return fmt.Errorf("got %v, want the loss of rank %d", err, lost)
			}
			out, err := m.Reform(testContext(t), patience)
			if err != nil {
				return err
			}
			defer out.Close()
			r, err := out.Rank()
			if err != nil {
				return err
			}
			if r.Rank() != i || r.Size() != 2 || r.Worker(i) != m.cfg.Name {
				t.Errorf("got rank %d of %d, named %s, want %d of 2, named %s", r.Rank(), r.Size(), r.Worker(i), i,
					m.cfg.Name)
			}
			if out.timeout.Load() != int64(patience) {
				t.Errorf("got a time limit of %d", out.timeout.Load())
			}
			if sum, err := sumOfRanks(out); sum != 1 || err != nil {
				t.Errorf("got sum %d, %v, want 1", sum, err)
			}
			again, err := out.Reform(testContext(t), patience) // without a loss
			if err != nil {
				return err
			}
			defer again.Close()
			sum, err := sumOfRanks(again)
			if sum != 1 {
				t.Errorf("got sum %d, want 1", sum)
			}
			return err
		})
	}
}

// TestReformLate: a rank that does not call Reform in time is left out.
func TestReformLate(t *testing.T) {
	leak.Check(t)
	members := formed(t, 2)
	out, err := members[0].Reform(testContext(t), 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r, err := out.Rank()
	if err != nil {
		t.Fatal(err)
	}
	if r.Size() != 1 {
		t.Errorf("got %d ranks, want 1", r.Size())
	}
}

func TestReformErrors(t *testing.T) {
	leak.Check(t)
	members, _ := open(t, "unjoined", 1)
	if _, err := members[0].Reform(t.Context(), patience); !errors.Is(err, ErrNotJoined) {
		t.Errorf("got %v, want %v", err, ErrNotJoined)
	}
	m := formed(t, 1)[0]
	sub, err := m.Split(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sub.Reform(t.Context(), patience); !errors.Is(err, ErrInvalid) {
		t.Errorf("a part: got %v, want %v", err, ErrInvalid)
	}
	for _, hello := range []string{"", "{", `{"id":"other","rank":0}`, `{"id":"formed","rank":1}`,
		`{"id":"formed","rank":-1}`} {
		_, err := m.acceptSurvivor(t.Context(), []byte(hello))
		if err == nil || !strings.Contains(err.Error(), "member: ") {
			t.Errorf("hello %q: got %v, want an error", hello, err)
		}
	}
}
