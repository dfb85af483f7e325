package docfiles

import "testing"

func TestSlugs(t *testing.T) {
	s := Slugs{}
	for _, c := range []struct{ heading, want string }{
		{"Several machines", "several-machines"},
		{"`ucx.Dial`: Go & C++", "ucxdial-go--c"},
		{"Several machines", "several-machines-1"},
		{"snake_case, kebab-case", "snake_case-kebab-case"},
		{"Several machines", "several-machines-2"},
		{"Überblick 2", "überblick-2"},
		{"", ""},
	} {
		if got := s.Next(c.heading); got != c.want {
			t.Errorf("fragment of %q: got %q, want %q", c.heading, got, c.want)
		}
	}
}
