package task

import (
	"strings"
	"testing"
)

func TestCheckHash(t *testing.T) {
	functions, id := SplitHash(Hash())
	if id != BuildID() || len(functions) != 32 {
		t.Errorf("the hash %q has the parts %q and %q, want 32 digits and %q", Hash(), functions, id, BuildID())
	}
	for _, hash := range []string{"", Hash(), functions} {
		if err := CheckHash(hash); err != nil {
			t.Errorf("%q: got %v, want nil", hash, err)
		}
	}
	for hash, want := range map[string]string{
		functions + "-old": "build old of the client differs from this worker, " + BuildText(),
		"abc-" + id:        "functions of the client differ from those of this worker",
		"abc":              "functions of the client differ from those of this worker",
	} {
		if err := CheckHash(hash); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", hash, err, want)
		}
	}
}

func TestDeclaredBuild(t *testing.T) {
	old := build
	defer func() { build = old }()
	build = "v1.4" + strings.Repeat("x", 200)
	if got, want := BuildID(), build[:maxBuild]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(BuildText(), "build v1.4xxx") {
		t.Errorf("the text is %q, want the declared build", BuildText())
	}
}

func TestSignatures(t *testing.T) {
	names, sums := Names(), Signatures()
	if len(names) == 0 || len(names) != len(sums) {
		t.Fatalf("%d names, %d signatures", len(names), len(sums))
	}
	for i, s := range sums {
		if len(s) != 8 {
			t.Errorf("the signature of %s is %q, want 8 digits", names[i], s)
		}
	}
}
