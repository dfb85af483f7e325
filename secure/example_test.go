package secure_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/comm/ucxcomm" // tcp:// and tls://
	"go.millstream.dev/secure"
)

// A cluster's certificates, used by a scheduler that listens and a worker that connects.
func Example() {
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "certs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	files, err := ca.WriteFiles(dir) // files.Python() is for Python's Client(security=…)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	server, err := files.Listen(secure.Scheduler)
	if err != nil {
		log.Fatal(err)
	}
	l, err := comm.Listen(ctx, "tls://127.0.0.1:0", comm.ListenConfig{TLS: server})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()

	client, err := files.Dial(secure.Worker)
	if err != nil {
		log.Fatal(err)
	}
	c, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{TLS: client})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	accepted, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer accepted.Close()
	peer := accepted.Info().TLS
	fmt.Println("worker:", secure.Allows(peer, secure.Worker), "client:", secure.Allows(peer, secure.Client))
	// Output: worker: true client: false
}

// A new process joins with a token that somebody has printed for it.
func ExampleTokens() {
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		log.Fatal(err)
	}
	tokens := secure.NewTokens(ca)
	token, err := tokens.Issue(0, secure.Worker)
	if err != nil {
		log.Fatal(err)
	}

	csr, key, err := secure.NewRequest("worker-7") // the key stays where it was made
	if err != nil {
		log.Fatal(err)
	}
	cert, err := tokens.Redeem(token, csr)
	if err != nil {
		log.Fatal(err)
	}
	me := secure.Identity{Cert: cert, Key: key, CA: ca.PEM()}
	_, err = me.Dial()
	fmt.Println("joined:", err == nil)

	_, err = tokens.Redeem(token, csr)
	fmt.Println("again:", err != nil)
	// Output:
	// joined: true
	// again: true
}
