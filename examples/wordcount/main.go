// Command wordcount counts the words of files on a cluster.
//
//	wordcount FILE…                                     on this machine
//	wordcount -scheduler tls://10.0.0.1:8786 FILE…      on a cluster
//	wordcount scheduler --tls-dir certs                 its scheduler
//	wordcount worker tls://10.0.0.1:8786 --tls-dir certs  and its workers
//
// DASK_DISTRIBUTED__COMM__TLS__CA_FILE and its siblings, which the scheduler prints, are the
// certificates of the first form.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"go.millstream.dev"
	"go.millstream.dev/cli"
)

// Functions are package-level variables, so that every process of the cluster has them.
var (
	count = millstream.Func("wordcount.count", func(_ context.Context, text string) (map[string]int, error) {
		words := map[string]int{}
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			if word = strings.Trim(word, ".,;:!?\"'()[]"); word != "" {
				words[word]++
			}
		}
		return words, nil
	})
	merge = millstream.Func("wordcount.merge",
		func(_ context.Context, counts []map[string]int) (map[string]int, error) {
			all := map[string]int{}
			for _, words := range counts {
				for word, n := range words {
					all[word] += n
				}
			}
			return all, nil
		})
)

func main() {
	millstream.Main() // workers go no further
	cli.Serve()       // wordcount scheduler, wordcount worker
	scheduler := flag.String("scheduler", "", "address of a scheduler (default: a cluster on this machine)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *scheduler, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "wordcount:", err)
		os.Exit(1)
	}
}

// run prints the ten most frequent words.
func run(ctx context.Context, out io.Writer, scheduler string, files []string) error {
	c, done, err := connect(ctx, scheduler)
	if err != nil {
		return err
	}
	defer done()
	texts := make([]string, len(files))
	for i, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		texts[i] = string(text)
	}
	// The counts stay on the workers that made them; only the merged ones come here.
	words, err := merge.Submit(ctx, c, millstream.ListOf(count.Map(ctx, c, texts))).Result(ctx)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(words))
	for word := range words {
		names = append(names, word)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := words[b] - words[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, word := range names[:min(10, len(names))] {
		fmt.Fprintf(out, "%6d %s\n", words[word], word)
	}
	return nil
}

// connect finds the cluster, or starts one here.
func connect(ctx context.Context, scheduler string) (*millstream.Client, func(), error) {
	if scheduler != "" {
		c, err := millstream.Connect(ctx, scheduler)
		if err != nil {
			return nil, nil, err
		}
		return c, func() { _ = c.Close() }, nil
	}
	cluster, err := millstream.Local(ctx, millstream.LocalConfig{})
	if err != nil {
		return nil, nil, err
	}
	c, err := cluster.Client(ctx)
	if err != nil {
		_ = cluster.Close()
		return nil, nil, err
	}
	return c, func() {
		_ = c.Close()
		_ = cluster.Close()
	}, nil
}
