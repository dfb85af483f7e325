// Release builds everything that is published for a version, from a commit: archives, packages of distributions,
// checksums with a signature. `release -tags` creates its tags, `release verify FOLDER` checks a folder that
// it wrote. See docs/guide/install.md.
package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"go.millstream.dev/internal/tools/release/archive"
	"go.millstream.dev/internal/tools/release/sign"
	"go.millstream.dev/internal/tools/tree"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

const usage = "usage: release [-version v1.2.3] [-commit COMMIT] [-out FOLDER] [-key FILE] [-target linux-amd64] " +
	"[-wheels | -tags] | release verify [-key FILE] FOLDER"

// options are the flags of the command.
type options struct {
	version, commit, out, key, target string
	wheels, tag                       bool
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "verify" {
		return verify(args[1:], out)
	}
	var o options
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.version, "version", "", "version, such as v0.1.0 (default: that of the Python package)")
	flags.StringVar(&o.commit, "commit", "", "commit to release (default HEAD)")
	flags.StringVar(&o.out, "out", "dist/release", "folder for the files, which is emptied")
	flags.StringVar(&o.key, "key", os.Getenv("MILLSTREAM_RELEASE_KEY"),
		"PEM file of the Ed25519 key that signs (default MILLSTREAM_RELEASE_KEY, or a key that is thrown away)")
	flags.StringVar(&o.target, "target", "", "one target, such as linux-amd64 or linux-arm64-static (default all)")
	flags.BoolVar(&o.wheels, "wheels", false, "build the Python wheels for this machine only, and empty no folder")
	flags.BoolVar(&o.tag, "tags", false, "create the tags of the release in this repository, and build nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; %s", flags.Arg(0), usage)
	}
	root, err := tree.Root(".")
	if err != nil {
		return err
	}
	return o.release(ctx, root, out)
}

// release builds the files of a release into a folder.
func (o *options) release(ctx context.Context, root string, log io.Writer) error {
	number, err := pythonVersion(os.DirFS(root))
	if err != nil {
		return err
	}
	if o.version = cmp.Or(o.version, "v"+number); o.version != "v"+number {
		return fmt.Errorf("version %s, but the Python package has %s; change python/pyproject.toml and __version__",
			o.version, number)
	}
	if o.tag {
		return o.tags(ctx, root, log)
	}
	work, err := os.MkdirTemp("", "millstream-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	s, err := checkout(ctx, root, o.commit, o.version, filepath.Join(work, "source"))
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "release %s of commit %.12s, %s\n", s.version, s.commit, s.time.Format("2006-01-02 15:04:05 MST"))
	if o.wheels {
		return s.hostWheels(ctx, runtime.GOARCH, o.out, exec.LookPath, log)
	}
	signer, err := signingKey(o.key, log)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	if err := s.all(ctx, o.out, o.target, log); err != nil {
		return err
	}
	if err := sign.Folder(o.out, signer); err != nil {
		return err
	}
	fmt.Fprintf(log, "%s: %s, signed\n", o.out, sign.Sums)
	return nil
}

// all writes the artifacts of every target, or of the named one.
func (s *source) all(ctx context.Context, folder, only string, log io.Writer) error {
	extras, err := s.extras()
	if err != nil {
		return err
	}
	list, missing := targets(runtime.GOARCH, exec.LookPath)
	for _, line := range missing {
		fmt.Fprintln(log, line)
	}
	if list = slices.DeleteFunc(list, func(t target) bool { return only != "" && t.name() != only }); len(list) == 0 {
		return fmt.Errorf("no target %s on this machine; omit -target to see those that are built", only)
	}
	names, err := s.names()
	if err != nil {
		return err
	}
	proxy, err := s.proxy(ctx)
	if err != nil {
		return err
	}
	script, err := s.file("scripts/install", "install.sh")
	if err != nil {
		return err
	}
	common := append(proxy, archive.Under("python", []archive.File{names})...)
	if err := write(folder, log, append(common, script)...); err != nil {
		return err
	}
	for _, t := range list {
		fmt.Fprintf(log, "%s\n", t.name())
		files, err := s.artifacts(ctx, t, extras)
		if err != nil {
			return err
		}
		if err := write(folder, log, files...); err != nil {
			return err
		}
	}
	return nil
}

// signingKey returns the key in a file, or a new one that is not kept.
func signingKey(file string, log io.Writer) (ed25519.PrivateKey, error) {
	if file == "" {
		fmt.Fprintln(log, "no key given: signing with a key that is thrown away; set KEY=FILE for a release")
		return sign.NewKey()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return sign.ParseKey(text)
}

// verify checks signature and checksums of a folder.
func verify(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("release verify", flag.ContinueOnError)
	flags.SetOutput(out)
	key := flags.String("key", "",
		"PEM file of the public key (default: the key in the folder, which proves no origin)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("one folder is needed; %s", usage)
	}
	folder := flags.Arg(0)
	text, err := os.ReadFile(cmp.Or(*key, filepath.Join(folder, sign.PublicKey)))
	if err != nil {
		return err
	}
	public, err := sign.ParsePublic(text)
	if err != nil {
		return err
	}
	if err := sign.Verify(folder, public); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: signature and checksums are right\n", folder)
	return nil
}
