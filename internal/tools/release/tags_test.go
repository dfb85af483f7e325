package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// TestTags creates the tags of a release in a repository with the nested modules that are published.
func TestTags(t *testing.T) {
	files := map[string]string{"go.mod": "module example.org/mill\n\ngo 1.26.0\n", "mill.go": "package mill\n"}
	for _, folder := range published {
		files[folder+"/go.mod"] = "module example.org/mill/" + folder + "\n\nrequire example.org/mill v0.0.0\n\n" +
			"replace example.org/mill => ../\n"
		files[folder+"/go.sum"] = ""
		files[folder+"/a.go"] = "package a\n"
	}
	repo, commit := repository(t, files)
	for _, role := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+role+"_NAME", "a")
		t.Setenv("GIT_"+role+"_EMAIL", "a@example.org")
	}
	o := options{version: "v0.1.0"}
	var log bytes.Buffer
	if err := o.tags(t.Context(), repo, &log); err != nil {
		t.Fatal(err)
	}
	if got := git(t, repo, "rev-parse", "v0.1.0^{commit}"); got != commit {
		t.Errorf("v0.1.0 is at %s, want %s", got, commit)
	}
	for _, folder := range published {
		name := folder + "/v0.1.0"
		if got := git(t, repo, "cat-file", "-t", name); got != "tag" {
			t.Errorf("%s is a %s, want an annotated tag", name, got)
		}
		if got := git(t, repo, "rev-parse", name+"^{commit}^"); got != commit {
			t.Errorf("%s is after %s, want %s", name, got, commit)
		}
		mod := git(t, repo, "show", name+":"+folder+"/go.mod")
		if !strings.Contains(mod, "require example.org/mill v0.1.0") || strings.Contains(mod, "replace") {
			t.Errorf("%s has go.mod\n%s", name, mod)
		}
		sum := git(t, repo, "show", name+":"+folder+"/go.sum")
		if !strings.Contains(sum, "example.org/mill v0.1.0 h1:") {
			t.Errorf("%s has go.sum\n%s", name, sum)
		}
	}
	// The work tree and its index are as they were.
	if got := git(t, repo, "status", "--porcelain"); got != "" {
		t.Errorf("changes of the work tree: %s", got)
	}
	if !strings.Contains(log.String(), "git push origin v0.1.0 bench/v0.1.0") {
		t.Errorf("got %s", log.String())
	}
	err := o.tags(context.Background(), repo, &log)
	if err == nil || !strings.Contains(err.Error(), "tag v0.1.0 exists") {
		t.Errorf("a second time: got error %v", err)
	}
}
