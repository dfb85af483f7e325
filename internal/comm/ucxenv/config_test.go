package ucxenv

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func readConfig(t testing.TB, file string) []Option {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	options, err := ParseConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	return options
}

func find(t testing.TB, options []Option, name string) Option {
	t.Helper()
	i := slices.IndexFunc(options, func(o Option) bool { return o.Name == name })
	if i < 0 {
		t.Fatalf("no option %s among %d", name, len(options))
	}
	return options[i]
}

// The files are what ucp_config_print of the two libraries prints with every flag.
func TestParseConfigRecorded(t *testing.T) {
	for _, c := range []struct {
		file  string
		first string
		count int
	}{
		{"config-1.13.1.txt", "UCX_NET_DEVICES", 61},
		{"config-1.21.0.txt", "UCX_NET_DEVICES", 98},
	} {
		options := readConfig(t, c.file)
		if len(options) != c.count || options[0].Name != c.first {
			t.Errorf("%s: %d options, first %s", c.file, len(options), options[0].Name)
		}
		tls := find(t, options, "UCX_TLS")
		if tls.Value != "all" || !strings.HasPrefix(tls.Doc, "Comma-separated list of transports to use.") ||
			!strings.Contains(tls.Doc, "\n - rc_v    : rc verbs") ||
			!strings.HasPrefix(tls.Syntax, "comma-separated list") {
			t.Errorf("%s: UCX_TLS is %+v", c.file, tls)
		}
		if o := find(t, options, "UCX_SOCKADDR_TLS_PRIORITY"); o.Value != "rdmacm,tcp,sockcm" {
			t.Errorf("%s: %+v", c.file, o)
		}
		for _, o := range options {
			if o.Default || o.Syntax == "" || strings.Contains(o.Doc, "syntax:") || !strings.HasPrefix(o.Name, "UCX_") {
				t.Errorf("%s: %+v", c.file, o)
			}
		}
	}
}

func TestParseConfigForms(t *testing.T) {
	in := "#\n# UCP context\n#\n\n" +
		"#\n# How to do it.\n# For example A=b.\n#\n# syntax:    <y|n>\n# inherits:  UCX_IB_X, UCX_X\n#\nUCX_RC_X=y\n\n" +
		"UCX_EMPTY=\n" +
		"UCX_OLD (deprecated)\n" +
		"# UCX_DEFAULTED=a=b \r\n" +
		"APP_UCX_TLS=tcp\n" +
		"# trailing comment"
	got, err := ParseConfig(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	want := []Option{
		{Name: "UCX_RC_X", Value: "y", Doc: "How to do it.\nFor example A=b.", Syntax: "<y|n>",
			Inherits: []string{"UCX_IB_X", "UCX_X"}},
		{Name: "UCX_EMPTY"},
		{Name: "UCX_OLD", Deprecated: true},
		{Name: "UCX_DEFAULTED", Value: "a=b ", Default: true},
		{Name: "APP_UCX_TLS", Value: "tcp"},
	}
	if !slices.EqualFunc(got, want, func(a, b Option) bool {
		return a.Name == b.Name && a.Value == b.Value && a.Doc == b.Doc && a.Syntax == b.Syntax &&
			a.Deprecated == b.Deprecated && a.Default == b.Default && slices.Equal(a.Inherits, b.Inherits)
	}) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if n := Names(got); !slices.Equal(n, []string{"UCX_RC_X", "UCX_EMPTY", "UCX_OLD", "UCX_DEFAULTED", "APP_UCX_TLS"}) {
		t.Errorf("names %v", n)
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, has string }{
		{"no value", "UCX_A=1\nhello\n", "line 2"},
		{"no name", "=1", "line 1"},
		{"bad name", "UCX A=1", "line 1"},
		{"digit first", "1UCX=1", "line 1"},
		{"long line", "UCX_A=1\nUCX_B=" + strings.Repeat("x", maxConfigLine), "line 2"},
		{"too many", strings.Repeat("A=\n", maxOptions+1), "more than"},
	} {
		if _, err := ParseConfig(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.has) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.has)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, file := range []string{"config-1.13.1.txt", "config-1.21.0.txt"} {
		b, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:2000]) // short, or the fuzzer spends its time on shortening it
	}
	f.Add([]byte("# UCX_A=b\nB (deprecated)\n#\n# syntax: x\n# inherits: , y\nC="))
	f.Fuzz(func(t *testing.T, b []byte) {
		options, err := ParseConfig(bytes.NewReader(b))
		if err != nil {
			return
		}
		// Printed without descriptions, the same options come back.
		var text strings.Builder
		for _, o := range options {
			switch {
			case o.Deprecated:
				text.WriteString(o.Name + " (deprecated)\n")
			case o.Default:
				text.WriteString("# " + o.Name + "=" + o.Value + "\n")
			default:
				text.WriteString(o.Name + "=" + o.Value + "\n")
			}
		}
		again, err := ParseConfig(strings.NewReader(text.String()))
		if err != nil || len(again) != len(options) {
			t.Fatalf("%q: %d options, then %d: %v", text.String(), len(options), len(again), err)
		}
		for i := range again {
			// A carriage return at the end of a value is taken for a line end again.
			if again[i].Name != options[i].Name || again[i].Value != strings.TrimSuffix(options[i].Value, "\r") {
				t.Fatalf("%+v came back as %+v", options[i], again[i])
			}
		}
	})
}
