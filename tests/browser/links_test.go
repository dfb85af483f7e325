package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Links on pages of other sites, such as notebooks, open the dashboard: the one with the token, and then those without
// it, although the browser does not send the cookie with the first request after such a link. Dask's paths lead to the
// page with their content.
func TestLinks(t *testing.T) {
	const token = "0123456789abcdef0123"
	_, url := start(t, 0, token)
	notebook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a id="token" href="%s/workers?token=%s">token</a> <a id="plain" href="%s/workers">plain</a>`,
			url, token, url)
	}))
	defer notebook.Close()
	elsewhere := strings.Replace(notebook.URL, "127.0.0.1", "localhost", 1) // another site than 127.0.0.1
	tab := open(t, Look{})
	const table = `location.hash === "#/workers" && document.querySelectorAll("tbody tr").length === 3`
	follow := func(id, ready string) {
		t.Helper()
		if err := tab.Go(elsewhere); err != nil {
			t.Fatal(err)
		}
		wait(t, tab, fmt.Sprintf(`document.querySelector(%q) !== null`, id))
		if err := tab.Click(id); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		for err := errors.New("not opened"); err != nil; err = tab.Wait(ctx, ready) { // fails if the page is replaced
			if ctx.Err() != nil {
				t.Fatalf("%s: %v", id, err)
			}
		}
	}
	// The refused page opens itself once more, now as a page of this server.
	follow("#plain", `document.body.innerText.includes("this page needs a token") &&
		document.querySelector("meta[http-equiv=refresh]") === null`)
	for _, id := range []string{"#token", "#plain"} {
		follow(id, table)
		var address string
		if err := tab.Eval(`location.href`, &address); err != nil || strings.Contains(address, token) {
			t.Errorf("%s: got address %s, %v, want one without the token", id, address, err)
		}
	}
	tab.Problems() // of the refused requests
}
