package options

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// wantError compares the text of an error; "" is none.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("error: got %v, want %q", err, want)
	}
}

func TestChoose(t *testing.T) {
	valid := []string{"a", "b", "c"}
	for _, tc := range []struct {
		names, byDefault, want []string
		err                    string
	}{
		{nil, valid[:2], valid[:2], ""},
		{[]string{"c"}, valid, []string{"c"}, ""},
		{[]string{"a", "x"}, valid, []string{"a", "x"}, `unknown case "x"; want one of a, b, c`},
	} {
		got := tc.names
		wantError(t, Choose("case", &got, valid, tc.byDefault), tc.err)
		if !slices.Equal(got, tc.want) {
			t.Errorf("Choose of %q: got %q, want %q", tc.names, got, tc.want)
		}
	}
}

func TestPositive(t *testing.T) {
	for _, tc := range []struct {
		value int
		quick bool
		want  int
		err   string
	}{
		{0, false, 5, ""}, {0, true, 2, ""}, {7, true, 7, ""}, {-1, false, -1, "rounds must be positive, not -1"},
	} {
		got := tc.value
		wantError(t, Positive(tc.quick, Number[int]{"rounds", &got, 5, 2}), tc.err)
		if got != tc.want {
			t.Errorf("Positive of %d, quick %t: got %d, want %d", tc.value, tc.quick, got, tc.want)
		}
	}
	d := -time.Second
	wantError(t, Positive(false, Number[time.Duration]{"duration of a round", &d, 1, 1}),
		"duration of a round must be positive, not -1s")
}

func TestSizes(t *testing.T) {
	var got []int64
	wantError(t, Sizes(&got, 1, 1<<30, 8, 1<<20), "")
	if want := []int64{8, 1 << 20}; !slices.Equal(got, want) {
		t.Errorf("default: got %d, want %d", got, want)
	}
	for _, n := range []int64{0, 1<<30 + 1} {
		bad := []int64{n}
		wantError(t, Sizes(&bad, 1, 1<<30), "want 1 B to 1 GiB")
	}
}
